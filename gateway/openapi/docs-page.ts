import { createHash } from "node:crypto";
import { ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { HTTP_STATUS } from "../edge/answers/http-errors.ts";
import { FORM_TYPE, JSON_TYPE } from "../routing/route-docs.ts";
import { STYLE } from "./docs-style.ts";
import type { OpenApiDocument } from "./openapi-document.ts";
import type { JsonSchema } from "./openapi-schemas.ts";

/** What the page has of the operator. */
export interface DocsLook {
  name: string;
  /** CSS with the custom properties of all pages. */
  style: string;
  /** HTML. Empty: none. */
  logo: string;
}

type Reference = { $ref: string };
interface Parameter {
  name: string;
  in: string;
  required: boolean;
  description?: string;
  schema: JsonSchema;
}
interface Media {
  schema: JsonSchema;
  example?: unknown;
}
interface Answer {
  description: string;
  headers?: Record<string, Reference | { description: string }>;
  content?: Record<string, Media>;
  "x-error-codes"?: readonly string[];
}
/** As `openapi-document.ts` writes it. */
interface Call {
  method: string;
  path: string;
  operationId: string;
  tags: readonly string[];
  summary: string;
  description?: string;
  security: readonly Record<string, readonly string[]>[];
  parameters: readonly Parameter[];
  requestBody?: { required: boolean; content: Record<string, Media> };
  responses: Record<string, Answer | Reference>;
  "x-audit-action"?: string;
}

const css = ({ style }: DocsLook) => style + STYLE;

/** No script, nothing that is loaded, no frames. The one style is known by its hash. */
export function docsPolicy(look: DocsLook): string {
  const hash = createHash("sha256").update(css(look)).digest("base64");
  return `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** The whole document as one page. A browser opens the call that an address or a search within the page leads to (HTML §4.11.1). */
export function docsPage(document: OpenApiDocument, look: DocsLook): string {
  const refer = <T>(given: T | Reference): T => {
    if (typeof given !== "object" || given === null || !("$ref" in given)) return given as T;
    const [, , kind = "", name = ""] = given.$ref.split("/");
    return (document.components as unknown as Record<string, Record<string, T>>)[kind]?.[name] as T;
  };
  const calls = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => {
      const parameters = ((operation.parameters ?? []) as (Parameter | Reference)[]).map(refer);
      return { ...(operation as unknown as Call), method: method.toUpperCase(), path, parameters };
    }),
  );
  const { title, description } = document.info as { title: string; description: string };
  const groups = document.tags as { name: string; description: string }[];
  const sections = groups.map(({ name, description: about }) => {
    const own = calls.filter(({ tags }) => tags.includes(name)).map((call) => callOf(call, refer));
    return section(name, `${markdown(about)}${own.join("\n")}`);
  });
  const shapes = Object.entries(document.components.schemas)
    .filter(([name]) => name !== "ErrorCode")
    .map(([name, schema]) => folded(`schema-${name}`, `<code>${escapeHtml(name)}</code>`, shapeOf(schema)));
  const chapters = [...groups.map(({ name }) => name), "Errors", "Shapes"];
  const heading = `${look.name} API`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(heading)}</title>
<link rel="icon" href="data:,">
<style>${css(look)}</style>
</head>
<body>
<header><a href="/">${look.logo}${escapeHtml(look.name)}</a> <a href="/openapi.json">OpenAPI ${escapeHtml(document.openapi)} of ${escapeHtml(title)}</a></header>
<nav aria-label="Chapters"><ul>${chapters.map((name) => `<li><a href="#${idOf(name)}">${escapeHtml(name)}</a></li>`).join("")}</ul></nav>
<main>
<h1>${escapeHtml(heading)}</h1>
${markdown(description)}
${sections.join("\n")}
${section("Errors", errorList())}
${section("Shapes", `${markdown("What calls have in common.")}${shapes.join("\n")}`)}
</main>
</body>
</html>
`;
}

const idOf = (chapter: string) => `chapter-${chapter.toLowerCase().replaceAll(" ", "-")}`;

const section = (name: string, content: string) =>
  `<section aria-labelledby="${idOf(name)}"><h2 id="${idOf(name)}">${escapeHtml(name)}</h2>${content}</section>`;

/** The id is within what is folded: only then does a browser unfold it. */
const folded = (id: string, summary: string, content: string) =>
  `<details><summary><h3>${summary}</h3></summary><div id="${escapeHtml(id)}">${content}</div></details>`;

function callOf(call: Call, refer: <T>(given: T | Reference) => T): string {
  const { method, path, operationId, summary, description = "", requestBody } = call;
  const answers = Object.entries(call.responses).map(([status, answer]) => ({ status, ...refer(answer) }));
  const refusals = answers.filter((answer) => answer["x-error-codes"] !== undefined);
  const action = call["x-audit-action"];
  const facts = [
    `<a href="#${operationId}">#${operationId}</a>`,
    whoMay(call),
    ...(action === undefined ? [] : [`In the audit log as <code>${escapeHtml(action)}</code>.`]),
  ];
  const title = `<span class="method">${method}</span> <b><code>${escapeHtml(path)}</code></b> <span>${inline(summary)}</span>`;
  const parameters = call.parameters.map(({ name, in: where, required, description: about = "", schema }) =>
    member(name, `${where}, ${limitsOf(schema, required)}`, about, ""),
  );
  const parts = [
    ...(parameters.length === 0 ? [] : [`<h4>Parameters</h4>${list(parameters)}`]),
    ...(requestBody === undefined ? [] : [bodyOf(requestBody)]),
    `<h4>Example</h4><pre>${escapeHtml(curlOf(call))}</pre>`,
    `<h4>Answers</h4>${list(answers.filter((answer) => !refusals.includes(answer)).map(successOf))}`,
    `<h4>Refusals</h4>${list(refusals.map(refusalOf))}`,
  ];
  return folded(operationId, title, `${markdown(description)}<p>${facts.join(" ")}</p>${parts.join("")}`);
}

/** Alternatives. */
function whoMay({ security }: Call): string {
  if (security.length === 0) return "For everybody.";
  const ways = security.map((way) => {
    if (way.client !== undefined) return "a client’s id and secret (HTTP Basic)";
    if (way.accessToken === undefined) return "nothing";
    const needed = way.accessToken.map((name) => `<code>${escapeHtml(name)}</code>`).join(" and ");
    return needed === "" ? "an access token" : `an access token with ${needed}`;
  });
  return `Needs ${ways.join(", or ")}.`;
}

function bodyOf({ required, content }: NonNullable<Call["requestBody"]>): string {
  const types = Object.keys(content).map((type) => `<code>${escapeHtml(type)}</code>`);
  const [media] = Object.values(content);
  const shape = media === undefined ? "" : shapeOf(media.schema);
  return `<h4>Body</h4><p>${types.join(" or ")}${required ? "" : ", optional"}</p>${shape}`;
}

function successOf({ status, description, headers = {}, content = {} }: Answer & { status: string }): string {
  const own = Object.entries(headers).flatMap(([name, header]) =>
    "$ref" in header ? [] : [member(name, "header", header.description, "")],
  );
  const bodies = Object.entries(content).map(([type, { schema }]) => {
    const { success, data } = (schema.properties ?? {}) as Record<string, JsonSchema>;
    // What every success has around it is said once.
    const isEnvelope = success?.const === true && data !== undefined;
    const name = type === JSON_TYPE ? (isEnvelope ? "data" : "") : type;
    const shape = isEnvelope ? data : schema;
    return member(name, limitsOf(shape, true), shape.description ?? "", membersOf(shape));
  });
  return `<b>${status}</b> ${inline(description)}${list([...own, ...bodies])}`;
}

function refusalOf({ status, "x-error-codes": codes = [] }: Answer & { status: string }): string {
  const names = codes.map((code) =>
    Object.hasOwn(ERROR_CATALOGUE, code)
      ? `<a href="#error-${code}"><code>${code}</code></a>`
      : `<code>${escapeHtml(code)}</code>`,
  );
  return `<b>${status}</b> ${names.join(", ")}`;
}

function errorList(): string {
  const rows = (Object.entries(ERROR_CATALOGUE) as [ErrorCode, string][]).map(
    ([code, text]) =>
      `<dt id="error-${code}"><code>${code}</code> ${HTTP_STATUS[code]}</dt><dd>${inline(text)}</dd>`,
  );
  return `<dl>${rows.join("")}</dl>`;
}

const list = (items: readonly string[]) =>
  items.length === 0 ? "" : `<ul>${items.map((item) => `<li>${item}</li>`).join("")}</ul>`;

function member(name: string, type: string, description: string, inner: string): string {
  const shown = name === "" ? "" : `<b><code>${escapeHtml(name)}</code></b> `;
  return `${shown}<small>${type}</small> ${inline(description)}${inner}`;
}

function shapeOf(schema: JsonSchema): string {
  const members = membersOf(schema);
  const type = schema.properties === undefined ? `<small>${limitsOf(schema, true)}</small> ` : "";
  const about = `${type}${inline(schema.description ?? "")}`;
  return (about === "" ? "" : `<p>${about}</p>`) + members;
}

/** What is within a value, at any depth; shapes that calls have in common are links. */
function membersOf(schema: JsonSchema): string {
  const { properties = {}, required = [], items, anyOf = [] } = schema;
  const within = [...anyOf, items, schema.then, schema.else].filter((inner) => typeof inner === "object");
  const own = Object.entries(properties).map(([name, property]) => {
    const { description = "", ...inner } = property as JsonSchema;
    return member(name, limitsOf(inner, required.includes(name)), description, membersOf(inner));
  });
  return list(own) + within.map((inner) => membersOf(inner as JsonSchema)).join("");
}

function typeOf(schema: JsonSchema): string {
  const { $ref, const: constant, enum: values, anyOf, items, type, format, additionalProperties } = schema;
  const either = anyOf ?? (schema.then === undefined ? undefined : [schema.then, schema.else]);
  const name = $ref?.split("/").at(-1);
  if (name === "ErrorCode") return `<a href="#${idOf("Errors")}">ErrorCode</a>`;
  if (name !== undefined) return `<a href="#schema-${name}">${name}</a>`;
  if (constant !== undefined) return `<code>${escapeHtml(JSON.stringify(constant))}</code>`;
  if (values !== undefined)
    return values.map((value) => `<code>${escapeHtml(String(value))}</code>`).join(" or ");
  if (either !== undefined) return either.map((one) => typeOf(one as JsonSchema)).join(" or ");
  if (type === "array") return `list of ${typeOf((items ?? {}) as JsonSchema)}`;
  const isMap = typeof additionalProperties === "object" && Object.keys(additionalProperties).length > 0;
  if (isMap && schema.properties === undefined) return `object of ${typeOf(additionalProperties)}`;
  return [type ?? "any value", ...(format === undefined ? [] : [`(${escapeHtml(format)})`])].join(" ");
}

function limitsOf(schema: JsonSchema, isRequired: boolean): string {
  const { minLength, maxLength, minimum, maximum, minItems, maxItems, default: byDefault } = schema;
  const texts = [
    typeOf(schema),
    rangeOf(minLength, maxLength, " characters"),
    rangeOf(minimum, maximum, ""),
    rangeOf(minItems, maxItems, " items"),
    byDefault === undefined ? "" : `by default <code>${escapeHtml(JSON.stringify(byDefault))}</code>`,
    isRequired || byDefault !== undefined ? "" : "optional",
  ];
  return texts.filter((text) => text !== "").join(", ");
}

function rangeOf(least: number | undefined, most: number | undefined, unit: string): string {
  if (most === undefined) return least === undefined ? "" : `at least ${least}${unit}`;
  if (least === most) return `${most}${unit}`;
  return least === undefined ? `at most ${most}${unit}` : `${least} to ${most}${unit}`;
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
const exampleOf = ({ schema }: Parameter): string =>
  String([schema.examples].flat()[0] ?? schema.default ?? schema.enum?.[0] ?? "…");

/** For a shell in which `URL`, `TOKEN`, `CLIENT` and `SECRET` are set. */
function curlOf({ method, path, security, parameters, requestBody }: Call): string {
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  const query = parameters.filter((parameter) => parameter.in === "query" && parameter.required);
  const filled = inPath.reduce((url, each) => url.replace(`{${each.name}}`, exampleOf(each)), path);
  const search = new URLSearchParams(
    Object.fromEntries(query.map((each) => [each.name, exampleOf(each)])),
  ).toString();
  const [type, media] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const way = security.at(-1) ?? {};
  return [
    `curl ${method === "GET" ? "" : `-X ${method} `}"$URL${filled}${search === "" ? "" : `?${search}`}"`,
    ...(way.accessToken === undefined ? [] : [`-H "authorization: Bearer $TOKEN"`]),
    ...(way.client === undefined ? [] : [`-u "$CLIENT:$SECRET"`]),
    ...(type === JSON_TYPE
      ? [`-H 'content-type: ${type}'`, `-d ${quoted(JSON.stringify(media?.example))}`]
      : []),
    ...(type === FORM_TYPE
      ? [`-d ${quoted(new URLSearchParams(media?.example as Record<string, string>).toString())}`]
      : []),
  ].join(" \\\n  ");
}

/** What descriptions use of Markdown: paragraphs, lists, code and bold. */
function markdown(text: string): string {
  const blocks = text.split("\n\n").filter((block) => block !== "");
  const written = blocks.map((block) =>
    block.startsWith("- ") ? list(block.slice(2).split("\n- ").map(inline)) : `<p>${inline(block)}</p>`,
  );
  return written.join("");
}

const inline = (text: string): string =>
  escapeHtml(text)
    .replaceAll(/`([^`]+)`/g, "<code>$1</code>")
    .replaceAll(/\*\*([^*]+)\*\*/g, "<strong>$1</strong>");
