import { parse, parseAllDocuments, stringify } from "yaml";
import type { z } from "zod";
import { configSchema as auditConfig } from "#audit-service/config.ts";
import { configSchema as gatewayConfig } from "#gateway/config.ts";
import { configSchema as identityConfig } from "#identity-service/config.ts";
import { configSchema as tokenConfig } from "#token-service/config.ts";
import { schemaConfigSchema } from "../image/schema-config.ts";
import { named } from "../k8s/manifests.ts";
import type { Manifest } from "../k8s/render.ts";
import type { Overlay } from "./overlay.ts";
import {
  COMPONENT_VARIABLES,
  camelCase,
  MIGRATIONS,
  mountedSecrets,
  readVariables,
  SERVICES,
} from "./templates.ts";

const CONFIGS: Readonly<Record<(typeof SERVICES)[number], z.ZodObject>> = {
  gateway: gatewayConfig,
  "identity-service": identityConfig,
  "token-service": tokenConfig,
  "audit-service": auditConfig,
};

export interface Image {
  newName: string;
  newTag?: string;
  digest?: string;
}

/** Puts what the overlay says in the place of every `!from NAME` of `values.yaml`, with the overlay's comments. */
export function filledValues(skeleton: string, overlay: Overlay, image: Image): string {
  const sources = sourcesOf(overlay, image);
  const filled = skeleton
    .split("\n")
    .map((line) => {
      const [, indent = "", before = "", name = "", after = ""] =
        /^( *)(.*?)!from ([\w.-]+)(.*)$/.exec(line) ?? [];
      if (name === "") return line;
      const source = sources[name];
      if (source === undefined) throw new Error(`values.yaml: nothing is known of ${name}`);
      if (!source.includes("\n")) return `${indent}${before}${source}${after}`;
      const text = source.trimEnd().replaceAll(/^(?=.)/gm, `${indent}  `);
      return text.trimStart().startsWith("|")
        ? `${indent}${before}${text.trimStart()}`
        : `${indent}${before.trimEnd()}${after}\n${text}`;
    })
    .join("\n");
  parse(filled); // Throws if it is no YAML.
  return filled;
}

function sourcesOf(overlay: Overlay, image: Image): Record<string, string> {
  const { manifests } = overlay;
  const host = String(named(manifests, "HTTPRoute", "gateway").spec.hostnames[0]);
  const flow = (value: unknown) => JSON.stringify(value);
  const ofHost = (text: string) => text.replaceAll(host, "{{ .Values.host }}");
  const variables = (name: string) => variablesAsYaml(ofHost(overlay.read(name)));
  const ways = manifests.filter(({ metadata }) => metadata.name === "gateway-from-clients");
  const [gatewayApiFrom = "", ingressFrom = ""] = ways.map(namespaceOf);
  const { spec: ingress } = named(manifests, "Ingress", "gateway");
  const { spec: checkpoints } = named(manifests, "PersistentVolumeClaim", "audit-checkpoints");
  const [spool] = named(manifests, "StatefulSet", "gateway").spec.volumeClaimTemplates;
  const own = Object.assign({}, ...SERVICES.map((service) => readVariables(overlay, service)));
  return {
    host,
    "image.repository": image.newName,
    "image.digest": flow(image.digest ?? ""),
    "gateway.spool.size": spool.spec.resources.requests.storage,
    "gatewayApi.parentRefs": stringify(named(manifests, "HTTPRoute", "gateway").spec.parentRefs),
    "gatewayApi.proxyNamespace": gatewayApiFrom,
    "ingress.proxyNamespace": ingressFrom,
    "ingress.className": ingress.ingressClassName,
    "ingress.tlsSecret": ingress.tls[0].secretName,
    "prometheus.namespace": "monitoring",
    "checkpointFile.storageClass": checkpoints.storageClassName,
    "checkpointFile.size": checkpoints.resources.requests.storage,
    secrets: secretNames(manifests),
    "outside.yaml": policies(overlay.read("outside.yaml")),
    "tracing.env": variables("tracing.env"),
    ...Object.fromEntries(Object.keys(COMPONENT_VARIABLES).map((key) => [key, flow(own[key])])),
    ...Object.fromEntries(
      ["routes.yaml", "access.yaml", "refused-people.yaml", "identity-providers.yaml"].map((file) => [
        file,
        `|\n${overlay.read(file)}`,
      ]),
    ),
    ...Object.fromEntries(MIGRATIONS.map((name) => [name, flow(readVariables(overlay, name).DATABASE_URL)])),
    ...Object.assign({}, ...SERVICES.map((service) => serviceSources(manifests, service))),
    ...Object.fromEntries(SERVICES.map((service) => [`${service}.env`, variables(`${service}.env`)])),
  };
}

function serviceSources(manifests: readonly Manifest[], service: string): Record<string, string> {
  const { spec: scaling } = named(manifests, "HorizontalPodAutoscaler", service);
  const workload = named(manifests, scaling.scaleTargetRef.kind, service);
  const container = workload.spec.template.spec.containers.find(
    ({ name }: { name: string }) => name === service,
  );
  return {
    [`${service}.minReplicas`]: String(scaling.minReplicas),
    [`${service}.maxReplicas`]: String(scaling.maxReplicas),
    [`${service}.resources`]: stringify(container.resources),
  };
}

const namespaceOf = ({ spec }: Manifest): string =>
  spec.ingress[0].from[0].namespaceSelector.matchLabels["kubernetes.io/metadata.name"];

/** Without what is a value of a component, and the comment above it. */
function variablesAsYaml(text: string): string {
  const taken = Object.keys(COMPONENT_VARIABLES).join("|");
  return text
    .replaceAll(new RegExp(`^(?:#.*\\n)*(?:${taken})=.*\\n`, "gm"), "")
    .replaceAll(/^(\w+)=(.*)$/gm, (_, key: string, value: string) => `${key}: ${JSON.stringify(value)}`);
}

function secretNames(manifests: readonly Manifest[]): string {
  return [...mountedSecrets(manifests)]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, keys]) => `${name}: ${name} # ${[...keys].join(", ")}\n`)
    .join("");
}

/** The policies of a file by their names, with the comments above them. */
function policies(text: string): string {
  return text
    .split(/^---\n/m)
    .map((part) => {
      const [, comments = "", name = "", spec = ""] =
        /^((?:#.*\n)*)[\s\S]*?\n {2}name: (.*)\nspec:\n([\s\S]*)$/.exec(part) ?? [];
      return `${comments}${name}:\n${spec}`;
    })
    .join("");
}

export function policyNames(overlay: Overlay): string[] {
  return parseAllDocuments(overlay.read("outside.yaml")).map(
    (document) => (document.toJS() as Manifest).metadata.name,
  );
}

type Schema = Record<string, unknown>;
const MAP: Schema = { type: "object" };
const variableSchema = (names: readonly string[]): Schema => ({
  type: "object",
  additionalProperties: false,
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
});

/** JSON Schema of the values: no other keys, and no variables that a service does not know. */
export function valuesSchema(values: string): Schema {
  // Node.js reads it.
  const variables = (service: (typeof SERVICES)[number]) => [
    ...Object.keys(CONFIGS[service].shape),
    "UV_THREADPOOL_SIZE",
  ];
  const known = SERVICES.map(variables);
  const [first = []] = known;
  const special: Schema = {
    env: variableSchema(first.filter((name) => known.every((names) => names.includes(name)))),
    networkPolicies: { type: "object", additionalProperties: MAP },
    "pod.nodeSelector": MAP,
    "pod.affinity": MAP,
    "pod.tolerations": { type: "array", items: MAP },
    "pod.imagePullSecrets": { type: "array", items: MAP },
    "gatewayApi.parentRefs": { type: "array", items: MAP },
    "image.digest": { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
    "prometheus.enabled": { enum: [true, false, "auto"] },
    ...Object.fromEntries(
      MIGRATIONS.map((name) => [
        `migrations.${name.replace("migrate-", "")}.env`,
        variableSchema(Object.keys(schemaConfigSchema.shape)),
      ]),
    ),
    ...Object.fromEntries(
      SERVICES.flatMap((service) => [
        [`${camelCase(service)}.env`, variableSchema(variables(service))],
        [`${camelCase(service)}.resources`, MAP],
      ]),
    ),
  };
  const schema = schemaOf(parse(values), "", special) as { properties: Schema };
  // Helm adds it to the values of a chart within another.
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    ...schema,
    properties: { ...schema.properties, global: MAP },
  };
}

function schemaOf(value: unknown, path: string, special: Schema): unknown {
  if (path in special) return special[path];
  if (Array.isArray(value)) return { type: "array", items: schemaOf(value[0], `${path}[]`, special) };
  if (typeof value === "number") return { type: "integer", minimum: 1 };
  if (typeof value !== "object" || value === null) return { type: typeof value };
  const properties = Object.entries(value).map(([key, one]) => [
    key,
    schemaOf(one, path === "" ? key : `${path}.${key}`, special),
  ]);
  return { type: "object", additionalProperties: false, properties: Object.fromEntries(properties) };
}
