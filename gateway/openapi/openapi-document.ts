import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { ErrorCode } from "#kit/values/errors.ts";
import { http } from "#kit/values/http.ts";
import { type Answer, HTML_TYPE, JSON_TYPE, type RouteDocs, TAGS } from "../routing/route-docs.ts";
import type { DocumentedRoute } from "./documented-route.ts";
import { codeTable, FAILURES_BEFORE_ROUTE, failureAnswer, failuresOf } from "./openapi-failures.ts";
import { createSchemaWriter, type JsonSchema, type SchemaWriter } from "./openapi-schemas.ts";

/** The parts that are read here. */
export interface OpenApiDocument {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  /** By status, as `responses` of an operation: those of operations that have no such status of their own. */
  "x-failures-of-any-request": Operation["responses"];
  components: {
    schemas: Record<string, JsonSchema>;
    responses: Record<string, object>;
    parameters: Record<string, object>;
    headers: object;
    securitySchemes: object;
  };
  [member: string]: unknown;
}

interface Operation {
  operationId: string;
  parameters?: ({ name: string } | { $ref: string })[];
  responses: Record<string, object>;
  [member: string]: unknown;
}

/** OpenAPI 3.1. @see https://spec.openapis.org/oas/v3.1.1.html */
export function createOpenApiDocument(routes: readonly DocumentedRoute[]): OpenApiDocument {
  const schemas = createSchemaWriter();
  const responses: Record<string, object> = {};
  const paths: OpenApiDocument["paths"] = {};
  const ownHeaders = routes.flatMap(({ config }) => Object.entries(config.docs.headers ?? {}));
  const headers = [...ownHeaders.map(headerParameter), BROWSER_PARAMETER];
  const parameters: Record<string, object> = Object.fromEntries(
    headers.map((header) => [header.name, header]),
  );
  for (const route of routes) {
    const path = route.url.replaceAll(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, schemas, responses) };
  }
  shareParameters(Object.values(paths).flatMap(Object.values), parameters);
  return {
    openapi: "3.1.1",
    info: { title: "Gatehouse", version: "1", description: ABOUT, license: LICENSE },
    servers: [{ url: "/" }, { url: "/v1", description: "The same, by version." }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    "x-failures-of-any-request": failures(FAILURES_BEFORE_ROUTE, {}, schemas, responses),
    components: {
      schemas: schemas.components,
      responses,
      parameters,
      headers: HEADERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

const LICENSE = { name: "Apache-2.0", identifier: "Apache-2.0" };

const ABOUT = `Register, log in, and call the APIs behind this gateway.

**Versions.** Every path is version 1, with or without \`/v1\` before it. Within a version things are only added: a client
must ignore members that it does not know. This document and its pages are outside of versions.

**Answers.** A success is \`{"success": true, "data": …, "message": …}\`, a failure \`{"success": false, "message": …,
"error": {"code": …, "requestId": …}}\`; with \`Accept: application/problem+json\` a failure is RFC 9457's problem details.
Go by \`code\`, which is stable, never by \`message\`. The schema \`ErrorCode\` lists them all, \`x-error-codes\` those of an
operation and a status. Any operation may answer also ${[...FAILURES_BEFORE_ROUTE].map(([status, codes]) => `${status} \`${codes}\``).join(", ")}.

**Methods.** \`HEAD\` answers as \`GET\` without the body where nothing else is said, \`OPTIONS\` with \`Allow\`. A path that is not there is 404
\`not_found\`, another method 405 \`method_not_allowed\` with \`Allow\`.

**Limits.** 429 \`too_many_requests\` and 503 have \`Retry-After\` in seconds.

**Other APIs.** Whatever else this gateway serves goes to the API behind the path, with the same access token, and is
documented by that API. The gateway adds these failures: 401 without a valid token, 403 \`forbidden\`, 404, 405, 413, 429,
502 \`upstream_unavailable\`, 503, 504 \`upstream_timeout\`. These have \`Gatehouse-Answer: gateway\`, which no API behind it can send.`;

const SECURITY_SCHEMES = {
  accessToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description:
      "An access token. Where permissions are named, its user or client must hold them all. One with the `tokenType` DPoP is " +
      "sent with the scheme `DPoP` and a proof of its key in the header `DPoP` (RFC 9449, section 7.1).",
  },
  client: { type: "http", scheme: "basic", description: "A service's id and secret (RFC 7617)." },
};

const headerText = { schema: { type: "string" } };
const headerNumber = { schema: { type: "integer", minimum: 0 } };
const HEADERS = {
  "X-Request-Id": {
    description: "Names the call in logs and in the audit log.",
    schema: { type: "string", format: "uuid" },
  },
  "Gatehouse-Answer": {
    description: "The gateway itself has answered, and no API behind it: act on refusals with it only.",
    schema: { type: "string", const: "gateway" },
  },
  "DPoP-Nonce": { description: "For the next DPoP proof (RFC 9449, section 8).", ...headerText },
  "WWW-Authenticate": { description: "RFC 9110, section 11.6.1.", ...headerText },
  "Retry-After": { description: "When to try again, in seconds.", ...headerNumber },
  "RateLimit-Limit": {
    description: "How many calls; only for a budget of the caller's own.",
    ...headerNumber,
  },
  "RateLimit-Remaining": { description: "How many are left.", ...headerNumber },
  "RateLimit-Reset": { description: "When the budget is full again, in seconds.", ...headerNumber },
};
/** In addition to `X-Request-Id` and `Gatehouse-Answer`. */
const HEADERS_OF_STATUS: Readonly<Record<number, readonly (keyof typeof HEADERS)[]>> = {
  400: ["DPoP-Nonce"],
  401: ["WWW-Authenticate", "DPoP-Nonce"],
  403: ["WWW-Authenticate"],
  429: ["Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
  503: ["Retry-After"],
};

function operation(
  route: DocumentedRoute,
  schemas: SchemaWriter,
  responses: Record<string, object>,
): Operation {
  const { config, schema } = route;
  const { operationId, tag, summary, description } = config.docs;
  const parameters = [
    ...schemas.parameters(schema.params, "path"),
    ...schemas.parameters(schema.querystring, "query"),
    ...Object.entries(config.docs.cookies ?? {}).map(cookieParameter),
    ...Object.keys(config.docs.headers ?? {}).map(parameterReference),
    ...(config.cookies === "session" ? [parameterReference(BROWSER_PARAMETER.name)] : []),
  ];
  return {
    operationId,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: securityOf(config),
    ...(parameters.length > 0 && { parameters }),
    ...(schema.body !== undefined && { requestBody: requestBody(schema, config.docs, schemas) }),
    responses: {
      ...successes(config.docs, schemas, responses),
      ...failures(failuresOf(route), config, schemas, responses),
    },
    ...(config.action !== undefined && { "x-audit-action": config.action }),
  };
}

const BROWSER_PARAMETER = {
  name: "Gatehouse-Client",
  in: "header",
  required: false,
  description:
    "`browser`: the refresh token is kept in the cookie `__Host-gatehouse-refresh`, which scripts cannot read. For scripts of the " +
    "gateway's own origin, or of an allowed one on its site.",
  schema: { type: "string", enum: ["browser"] },
};

const parameterReference = (name: string) => ({ $ref: `#/components/parameters/${name}` });

function headerParameter([name, description]: [string, string]) {
  return { name, in: "header", required: false, description, ...headerText };
}

function cookieParameter([name, description]: [string, string]) {
  return { name, in: "cookie", required: true, description, ...headerText };
}

/** Alternatives. */
function securityOf({ auth, permissions = [], docs }: DocumentedRoute["config"]): object[] {
  if (docs.isForClients === true) return [{ client: [] }];
  if (docs.takesSession === true) return [{}, { accessToken: [] }];
  if (auth === "public") return [];
  return auth === "authenticated"
    ? [{ accessToken: permissions }]
    : auth.roles.map((role) => ({ accessToken: [role] }));
}

/** Optional if a browser session can do without it: what it lacks then is in a cookie. */
function requestBody(
  { body = z.undefined(), browserBody = body }: DocumentedRoute["schema"],
  { bodyTypes = [JSON_TYPE] }: RouteDocs,
  schemas: SchemaWriter,
): object {
  const content = schemas.media(body, "input");
  return {
    required: !browserBody.safeParse(undefined).success,
    content: Object.fromEntries(bodyTypes.map((type) => [type, content])),
  };
}

/** Those with data are written where they are, for generators of clients. */
function successes(
  { answers }: RouteDocs,
  schemas: SchemaWriter,
  responses: Record<string, object>,
): Record<string, object> {
  const entries = Object.entries(answers).map(([status, answer]) => {
    const response = success(answer, schemas);
    return [status, status.startsWith("2") ? response : shared(status, response, responses)];
  });
  return Object.fromEntries(entries);
}

function success({ description, content = {}, headers = {} }: Answer, schemas: SchemaWriter): object {
  const media = Object.entries(content).map(([type, schema]) => [
    type,
    { schema: schemas.write(schema, "output") },
  ]);
  const own = Object.entries(headers).map(([name, text]) => [name, { description: text, ...headerText }]);
  return {
    description,
    headers: { ...headerReferences([]), ...Object.fromEntries(own) },
    ...(media.length > 0 && { content: Object.fromEntries(media) }),
  };
}

/** What repeats, of equal name, is told apart by a number. @returns its key in `known`. */
function keyOf(name: number | string, value: object, known: Record<string, object>): string {
  let number = 1;
  while (!isDeepStrictEqual(known[`${name}.${number}`] ?? value, value)) number += 1;
  known[`${name}.${number}`] = value;
  return `${name}.${number}`;
}

function shared(status: number | string, response: object, responses: Record<string, object>): object {
  return { $ref: `#/components/responses/${keyOf(status, response, responses)}` };
}

/** Those of one operation only stay where they are. */
function shareParameters(operations: readonly Operation[], known: Record<string, object>): void {
  const all = operations.flatMap(({ parameters = [] }) => parameters);
  const uses = Map.groupBy(all, (parameter) => JSON.stringify(parameter));
  for (const operation of operations) {
    const { parameters } = operation;
    if (parameters === undefined) continue;
    operation.parameters = parameters.map((parameter) => {
      const isRepeated = uses.get(JSON.stringify(parameter))?.length !== 1;
      if ("$ref" in parameter || !isRepeated) return parameter;
      return parameterReference(keyOf(parameter.name, parameter, known));
    });
  }
}

function failures(
  codesOfStatus: ReadonlyMap<number, ErrorCode[]>,
  config: Partial<DocumentedRoute["config"]>,
  schemas: SchemaWriter,
  responses: Record<string, object>,
): Record<string, object> {
  const entries = [...codesOfStatus].map(([status, codes]) => {
    const response = failureResponse(status, codes, config, schemas);
    return [status, shared(status, response, responses)];
  });
  return Object.fromEntries(entries);
}

/** `x-error-codes` are all that stand in an answer of this status. */
function failureResponse(
  status: number,
  codes: readonly ErrorCode[],
  { failurePage, docs }: Partial<DocumentedRoute["config"]>,
  schemas: SchemaWriter,
): object {
  const answer = failureAnswer(codes, docs?.failureForm);
  const media = Object.entries(answer.content).map(([type, schema]) => [
    type,
    { schema: schemas.write(schema, "output") },
  ]);
  return {
    description: `${http.STATUS_CODES[status]}\n\n${codeTable(codes)}`,
    headers: headerReferences(HEADERS_OF_STATUS[status] ?? []),
    content: {
      ...Object.fromEntries(media),
      ...(failurePage !== undefined && { [HTML_TYPE]: { schema: { type: "string" } } }),
    },
    "x-error-codes": answer.codes,
  };
}

function headerReferences(names: readonly (keyof typeof HEADERS)[]): Record<string, object> {
  const all = ["X-Request-Id", "Gatehouse-Answer", ...names];
  return Object.fromEntries(all.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
