import { stringify } from "yaml";
import { workloadsOf } from "../k8s/manifests.ts";
import type { Manifest } from "../k8s/render.ts";
import { mountedSecrets, type Overlay } from "./overlay.ts";

/** Whose settings are values, and where these are. */
export const OWNERS: Readonly<Record<string, string>> = {
  gateway: "gateway",
  "identity-service": "identityService",
  "token-service": "tokenService",
  "audit-service": "auditService",
  "event-service": "eventService",
  "migrate-identity": "migrations.identity",
  "migrate-token": "migrations.token",
  "migrate-audit": "migrations.audit",
  "migrate-event": "migrations.event",
};

/** Values that take the place of a field: its kind, object and path. */
export const PLACES: Readonly<Record<string, string>> = {
  "gateway.spool.size": "StatefulSet gateway spec volumeClaimTemplates 0 spec resources requests storage",
  routes: "ConfigMap gateway-routes data routes.yaml",
  access: "ConfigMap access data access.yaml",
  refusedPeople: "ConfigMap refused-people data refused-people.yaml",
  "gatewayApi.parentRefs": "HTTPRoute gateway spec parentRefs",
  "gatewayApi.hostnames": "HTTPRoute gateway spec hostnames",
  proxyNamespace:
    "NetworkPolicy gateway-from-clients spec ingress 0 from 0 namespaceSelector matchLabels kubernetes.io/metadata.name",
  "checkpointFile.size": "PersistentVolumeClaim audit-checkpoints spec resources requests storage",
  "checkpointFile.storageClass": "PersistentVolumeClaim audit-checkpoints spec storageClassName",
  "identityProviders.file": "ConfigMap identity-providers data identity-providers.yaml",
  ...Object.fromEntries(
    Object.entries(OWNERS).flatMap(([owner, value]) => {
      if (owner.startsWith("migrate-"))
        return [[`${value}.env.DATABASE_URL`, `ConfigMap ${owner}-settings data DATABASE_URL`]];
      const kind = owner === "gateway" ? "StatefulSet" : "Deployment";
      return [
        [`${value}.minReplicas`, `HorizontalPodAutoscaler ${owner} spec minReplicas`],
        [`${value}.maxReplicas`, `HorizontalPodAutoscaler ${owner} spec maxReplicas`],
        [`${value}.resources`, `${kind} ${owner} spec template spec containers 0 resources`],
      ];
    }),
  ),
};

/** Variables that follow a value. */
export const VALUE_OF: Readonly<Record<string, string>> = {
  RATE_LIMIT_REPLICAS: "gateway.maxReplicas",
  THROTTLE_REPLICAS: "identityService.maxReplicas",
  REDIS_URL: "redis.url",
  OAUTH_RETURN_TO: "identityProviders.returnTo",
  BOOTSTRAP_ADMIN_EMAIL: "firstAdministrator.email",
};

/** Variables that follow a list. */
const EXPRESSION_OF: Readonly<Record<string, string>> = { AUDIT_LOGS: 'include "gatehouse.auditLogs" .' };

/** Files that are made of a list, by their ConfigMaps: its key there, and the value. */
const LISTS: Readonly<Record<string, readonly [file: string, key: string, value: string]>> = {
  "audit-logs": ["logs.yaml", "logs", "auditService.logs"],
  "token-parts": ["parts.yaml", "parts", "tokenService.parts"],
};

/** What is there only with a value: names of objects, volumes and variables. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  "redis.enabled": ["redis", "REDIS_PASSWORD_FILE", "REDIS_URL"],
  "redisSentinel.enabled": ["redis-sentinel", "REDIS_SENTINEL_PASSWORD_FILE", "REDIS_CA_FILE"],
  "smtpPassword.enabled": ["smtp", "SMTP_PASSWORD_FILE"],
  "identityProviders.enabled": ["identity-providers", "OAUTH_PROVIDERS_FILE", "OAUTH_RETURN_TO"],
  "firstAdministrator.enabled": [
    "first-administrator",
    "BOOTSTRAP_ADMIN_PASSWORD_FILE",
    "BOOTSTRAP_ADMIN_EMAIL",
  ],
  "checkpointFile.enabled": ["audit-checkpoints", "checkpoints", "CHECKPOINT_FILE"],
  "siem.enabled": ["siem"],
  "auditService.logs": ["audit-logs", "LOGS_FILE", "AUDIT_LOGS"],
  "tokenService.parts": ["token-parts", "PARTS_FILE"],
};
/** Conditions of objects by their kind, or else by their name. */
const CONDITIONS: Readonly<Record<string, string>> = {
  Certificate: ".Values.certManager.enabled",
  Issuer: ".Values.certManager.enabled .Values.certManager.authority",
  // Its key is the private authority's.
  "gatehouse-ca": ".Values.certManager.enabled .Values.certManager.authority",
  ExternalSecret: ".Values.externalSecrets.enabled",
  HTTPRoute: ".Values.gatewayApi.enabled",
  PodMonitor: '(include "gatehouse.prometheus" .)',
  PrometheusRule: '(include "gatehouse.prometheus" .)',
};

// biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
type Node = any;

/** What Helm executes, as a word that YAML keeps as it is: a value, or a whole item of a list or key of a map, for lines of their own. */
const action = (text: string) => `zz${Buffer.from(text).toString("hex")}zz`;
const expression = (text: string) => action(`{{ ${text} }}`);

function asText(manifest: Manifest): string {
  const text = (word: string) => Buffer.from(word.slice(2, -2), "hex").toString();
  return stringify(manifest, { version: "1.1", lineWidth: 0 })
    .replaceAll("{{", '{{ "{{" }}')
    .replaceAll(/^( *)(?:- )?(zz[0-9a-f]+zz)(?:: null)?$/gm, (_, indent: string, word: string) =>
      text(word).replaceAll(/^/gm, indent),
    )
    .replaceAll(/zz[0-9a-f]+zz/g, text);
}

/** The field at a place, in the manifest that it names. */
export function placeIn(manifests: readonly Manifest[], place: string): Node {
  const [kind, name, ...path] = place.split(" ");
  const manifest = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  return path.reduce<Node>((node, key) => node[key], manifest);
}

/** The templates by the names of their files. @param values of the chart. */
export function templatesOf(overlay: Overlay, values: Node): Map<string, string> {
  const files = new Map<string, string>();
  const manifests = structuredClone(overlay.manifests);
  for (const [value, place] of Object.entries(PLACES)) {
    const end = place.lastIndexOf(" ");
    const parent = placeIn(manifests, place.slice(0, end));
    parent[place.slice(end + 1)] = expression(`tpl (toJson .Values.${value}) .`);
  }
  for (const manifest of manifests) {
    const { kind, metadata } = manifest;
    if (kind === "Namespace" || (kind === "NetworkPolicy" && metadata.name in values.networkPolicies))
      continue;
    const head = template(overlay, manifest, values);
    const text = head + asText(withNames(manifest, "", overlay));
    const conditions = conditionsOf(manifest);
    files.set(
      fileOf(kind, metadata.name),
      conditions.length === 0 ? text : `{{- if and ${conditions.join(" ")} }}\n${text}{{- end }}\n`,
    );
  }
  return files;
}

const fileOf = (kind: string, name: string) => `${name}.${kind.toLowerCase()}.yaml`;

/** The value without which something is not there. */
const valueFor = (name: string) => Object.keys(PARTS).find((value) => PARTS[value]?.includes(name));

function conditionsOf({ kind, metadata }: Manifest): string[] {
  const value = valueFor(metadata.name);
  const ofKind = metadata.labels?.grafana_dashboard === undefined ? CONDITIONS[kind] : CONDITIONS.PodMonitor;
  const conditions = [CONDITIONS[metadata.name] ?? ofKind, value && `.Values.${value}`];
  return conditions.filter((condition) => condition !== undefined);
}

/** Puts values into a manifest. @returns what comes before it. */
function template(overlay: Overlay, manifest: Manifest, values: Node): string {
  const { kind, metadata, spec } = manifest;
  for (const { pod } of workloadsOf([manifest])) {
    if (kind !== "Job") spec.template.metadata.annotations = restartsOf(overlay, manifest);
    podOf(pod);
  }
  if (kind === "StatefulSet") storageClass(spec.volumeClaimTemplates[0].spec, "gateway.spool");
  if (kind === "PersistentVolumeClaim") {
    // An uninstall must not take the evidence with it.
    metadata.annotations = { "helm.sh/resource-policy": "keep" };
    storageClass(spec, "checkpointFile");
  }
  const [file, key, list] = (kind === "ConfigMap" && LISTS[metadata.name]) || [];
  if (file !== undefined)
    manifest.data = { [file]: expression(`tpl (toYaml (dict "${key}" .Values.${list})) . | quote`) };
  const owner = kind === "ConfigMap" ? metadata.name.replace(/-settings$/, "") : "";
  return owner in OWNERS ? settings(manifest, owner, values) : "";
}

/** @returns the definition of the settings that are not in the values' `env`, which is merged into them. */
function settings(manifest: Manifest, owner: string, values: Node): string {
  const path = OWNERS[owner] ?? "";
  const shared = path.startsWith("migrations.") ? [] : ["env"];
  const environments = [...shared, `${path}.env`];
  const given = environments.flatMap((value) =>
    Object.keys(value.split(".").reduce<Node>((node, key) => node[key], values)),
  );
  const lines = Object.entries<string>(manifest.data)
    .filter(([key]) => !given.includes(key))
    .map(([key, value]) => {
      const from = EXPRESSION_OF[key] ?? (key in VALUE_OF ? `.Values.${VALUE_OF[key]}` : undefined);
      const line = `${key}: ${from === undefined ? JSON.stringify(value) : `{{ quote (${from}) }}`}`;
      const needed = valueFor(key);
      return needed === undefined ? line : `{{- if .Values.${needed} }}\n${line}\n{{- end }}`;
    });
  const define = `gatehouse.${owner}-settings`;
  const merged = `mergeOverwrite (include "${define}" . | fromYaml) ${environments.map((value) => `.Values.${value}`).join(" ")}`;
  const range = `{{- range $name, $value := ${merged} }}\n{{ $name }}: {{ tpl $value $ | quote }}\n{{- end }}`;
  manifest.data = { [action(range)]: null };
  return `{{- define "${define}" }}\n${lines.join("\n")}\n{{- end }}\n`;
}

function podOf(pod: Node): void {
  /** Surrounds what is there only with a value with that condition. */
  const conditional = (list: { name: string }[] = []) =>
    list.flatMap((item) => {
      const needed = valueFor(item.name);
      return needed === undefined
        ? [item]
        : [action(`{{- if .Values.${needed} }}`), item, action("{{- end }}")];
    });
  pod.volumes = conditional(pod.volumes);
  for (const container of [...(pod.initContainers ?? []), ...pod.containers])
    container.volumeMounts = conditional(container.volumeMounts);
  pod[action("{{- range $name, $value := .Values.pod }}\n{{ $name }}: {{ toJson $value }}\n{{- end }}")] =
    null;
}

/** Annotations that restart pods when their settings or Secrets change. */
function restartsOf({ restarting }: Overlay, workload: Manifest): Record<string, null | string> {
  const words = JSON.stringify(workload);
  const maps = [...restarting]
    .filter((name) => words.includes(`"name":"${name}"}`))
    .map((name) => `(include (print $.Template.BasePath "/${fileOf("ConfigMap", name)}") .)`);
  // Certificates are read again.
  const secrets = [...mountedSecrets([workload]).keys()].filter((name) => !name.endsWith("-tls"));
  const names = secrets.map((name) => `(index .Values.secrets ${JSON.stringify(name)})`).join(" ");
  const versions = `include "gatehouse.secretVersions" (dict "namespace" .Release.Namespace "names" (list ${names}))`;
  const lines = `{{- with ${versions} }}\nchecksum/secrets: {{ sha256sum . }}\n{{- end }}`;
  return {
    "checksum/config": expression(`print ${maps.join(" ")} | sha256sum`),
    [action(lines)]: null,
  };
}

function storageClass(spec: Node, value: string): void {
  delete spec.storageClassName;
  spec[action(`{{- with .Values.${value}.storageClass }}\nstorageClassName: {{ . }}\n{{- end }}`)] = null;
}

/** A list in one line, with an item for each secret of an identity provider. */
const eachKey = (item: string) =>
  action(`[{{ range .Values.identityProviders.secretKeys }}{ ${item} }, {{ end }}]`);

/** Puts the names that are values into a manifest, wherever they are. @param parent key of the node. */
function withNames(node: Node, key: string, overlay: Overlay, parent = ""): Node {
  if (key === "data" && node[0]?.remoteRef?.key === "gatehouse/identity-providers")
    return eachKey("secretKey: {{ . }}, remoteRef: { key: gatehouse/identity-providers, property: {{ . }} }");
  if (key === "secret" && node.name === "identity-providers")
    node.items = eachKey("key: {{ . }}, path: {{ . }}");
  if (Array.isArray(node)) return node.map((item) => withNames(item, key, overlay, parent));
  if (key === "secretStoreRef") return expression("toJson .Values.externalSecrets.store");
  if (key === "issuerRef" && node.name === "gatehouse")
    return expression("toJson .Values.certManager.issuer");
  if (typeof node === "object" && node !== null) {
    return Object.fromEntries(
      Object.entries(node).map(([name, value]) => [name, withNames(value, name, overlay, key)]),
    );
  }
  const isSecret = key === "secretName" || (key === "name" && ["secret", "target"].includes(parent));
  if (isSecret && overlay.secrets.has(node))
    return expression(`index .Values.secrets ${JSON.stringify(node)}`);
  if (["name", "serviceAccountName"].includes(key) && overlay.versioned.has(node))
    return `${node}-${expression('include "gatehouse.migration" .')}`;
  if (key === "namespace" && node === "gatehouse") return expression(".Release.Namespace");
  if (key === "image") return expression('include "gatehouse.image" .');
  if (key === "kubernetes.io/metadata.name" && node === "monitoring")
    return expression(".Values.prometheus.namespace");
  return node;
}
