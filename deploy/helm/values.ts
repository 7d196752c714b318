import { parse, stringify } from "yaml";
import type { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { configSchema as eventConfig } from "#event-service/config.ts";
import { configSchema as gatewayConfig } from "#gateway/config.ts";
import { configSchema as identityConfig } from "#identity-service/config.ts";
import { configSchema as tokenConfig } from "#token-service/config.ts";
import { schemaConfigSchema } from "../image/schema-config.ts";
import { named, ofKind } from "../k8s/manifests.ts";
import type { Overlay } from "./overlay.ts";
import { OWNERS, PLACES, placeIn, VALUE_OF } from "./templates.ts";

/** Puts what the overlay says in the place of every `!from NAME` of `values.yaml`, with the overlay's comments. */
export function filledValues(skeleton: string, overlay: Overlay): string {
  const sources = sourcesOf(overlay);
  const filled = skeleton.replaceAll(/^.*!from.*$/gm, (line) => {
    const [, indent = "", before = "", name = "", after = ""] =
      /^( *)(.*?)!from ([\w.-]+)(.*)$/.exec(line) ?? [];
    const source = sources[name]?.trimEnd();
    if (source === undefined) throw new Error(`values.yaml: nothing is known of ${name}`);
    if (!source.includes("\n")) return `${indent}${before}${source}${after}`;
    const text = source.replaceAll(/^(?=.)/gm, `${indent}  `);
    return text.trimStart().startsWith("|")
      ? `${indent}${before}${text.trimStart()}`
      : `${indent}${before.trimEnd()}${after}\n${text}`;
  });
  parse(filled); // Throws if it is no YAML.
  return filled;
}

function sourcesOf({ manifests, secrets, read }: Overlay): Record<string, string> {
  const { images } = parse(read("kustomization.yaml")) as { images: [{ newName: string; digest?: string }] };
  const host: string = named(manifests, "HTTPRoute", "gateway").spec.hostnames[0];
  const settings = Object.assign({}, ...ofKind(manifests, "ConfigMap").map(({ data }) => data));
  const sources: Record<string, string> = {
    host,
    "image.repository": images[0].newName,
    "image.digest": stringify(images[0].digest ?? ""),
    "outside.yaml": policies(read("outside.yaml")),
    secrets: [...secrets]
      .map(([name, keys]) => `${name}: ${name} # ${[...keys].join(", ")}\n`)
      .toSorted()
      .join(""),
  };
  for (const name of ["tracing", ...SERVICES])
    sources[`${name}.env`] = variablesAsYaml(read(`${name}.env`)).replaceAll(host, "{{ .Values.host }}");
  for (const [variable, value] of Object.entries(VALUE_OF))
    sources[value] = JSON.stringify(settings[variable]);
  for (const [value, place] of Object.entries(PLACES))
    sources[value] = stringify(placeIn(manifests, place), { lineWidth: 0 });
  return sources;
}

/** Without what is a value of its own, and the comment above it. */
function variablesAsYaml(text: string): string {
  return text
    .replaceAll(new RegExp(`^(?:#.*\\n)*(?:${Object.keys(VALUE_OF).join("|")})=.*\\n`, "gm"), "")
    .replaceAll(/^(\w+)=(.*)$/gm, (_, key: string, value: string) => `${key}: ${JSON.stringify(value)}`);
}

/** The policies of a file by their names, with the comments above them. */
function policies(text: string): string {
  return text
    .split(/^---\n/m)
    .map((part) => part.replace(/^apiVersion[\s\S]*?\n {2}name: (.*)\nspec:/m, "$1:"))
    .join("");
}

/** What each service reads, and Node.js. */
const known = (config: z.ZodObject) => [...Object.keys(config.shape), "UV_THREADPOOL_SIZE"];
const VARIABLES: Readonly<Record<string, readonly string[]>> = {
  gateway: known(gatewayConfig),
  "identity-service": known(identityConfig),
  "token-service": known(tokenConfig),
  "audit-service": known(auditConfig),
  "event-service": known(eventConfig),
};
const SERVICES = Object.keys(VARIABLES);

type Schema = Record<string, unknown>;
const MAP: Schema = { type: "object" };
const STRING: Schema = { type: "string" };
const INTEGER: Schema = { type: "integer", minimum: 1 };
const closed = (properties: Schema): Schema => ({ type: "object", additionalProperties: false, properties });
const listOf = (members: Schema): Schema => ({ type: "array", items: closed(members) });

/** JSON Schema of the values: no other keys, and no variables that a process does not know. */
export function valuesSchema(values: object): Schema {
  const strings = (names: readonly string[] = Object.keys(schemaConfigSchema.shape)) =>
    closed(Object.fromEntries(names.map((name) => [name, STRING])));
  const shared = Object.values(VARIABLES).reduce((all, names) => all.filter((name) => names.includes(name)));
  const special: Schema = {
    ".env": strings(shared),
    ".auditService.logs": listOf({ number: INTEGER, url: STRING }),
    ".tokenService.parts": listOf({ number: INTEGER, url: STRING, schema: STRING }),
    ".image.digest": { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
    ".prometheus.enabled": { enum: [true, false, "auto"] },
    ".networkPolicies": { type: "object", additionalProperties: MAP },
    ".pod": MAP,
    ".global": MAP,
  };
  for (const [owner, value] of Object.entries(OWNERS)) {
    special[`.${value}.env`] = strings(VARIABLES[owner]);
    special[`.${value}.resources`] = MAP;
  }
  // Helm adds `global` to the values of a chart within another.
  const schema = schemaOf({ ...values, global: {} }, "", special) as Schema;
  return { $schema: "http://json-schema.org/draft-07/schema#", ...schema };
}

function schemaOf(value: unknown, path: string, special: Schema): unknown {
  if (path in special) return special[path];
  if (Array.isArray(value)) return { type: "array" };
  if (typeof value === "number") return INTEGER;
  if (typeof value !== "object" || value === null) return { type: typeof value };
  const properties = Object.entries(value).map(([key, one]) => [
    key,
    schemaOf(one, `${path}.${key}`, special),
  ]);
  return closed(Object.fromEntries(properties));
}
