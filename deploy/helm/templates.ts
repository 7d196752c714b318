import { stringify } from "yaml";
import { type Container, workloadsOf } from "../k8s/manifests.ts";
import type { Manifest } from "../k8s/render.ts";
import type { Overlay } from "./overlay.ts";

/** `identity-service` is `identityService` in the values. */
export const camelCase = (name: string) =>
  name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

export const SERVICES = ["gateway", "identity-service", "token-service", "audit-service"] as const;
export const MIGRATIONS = ["migrate-identity", "migrate-token", "migrate-audit"] as const;

/** Variables of the overlay that are values of a component. */
export const COMPONENT_VARIABLES: Readonly<Record<string, { component: string; value: string }>> = {
  REDIS_URL: { component: "redis", value: ".Values.redis.url" },
  OAUTH_RETURN_TO: { component: "identity-providers", value: ".Values.identityProviders.returnTo" },
  BOOTSTRAP_ADMIN_EMAIL: { component: "first-administrator", value: ".Values.firstAdministrator.email" },
};
/** Variables that follow another value. */
const FOLLOWING: Readonly<Record<string, string>> = {
  RATE_LIMIT_REPLICAS: ".Values.gateway.maxReplicas",
  THROTTLE_REPLICAS: ".Values.identityService.maxReplicas",
};
const FILES: Readonly<Record<string, string>> = {
  access: ".Values.access",
  "gateway-routes": ".Values.routes",
  "refused-people": ".Values.refusedPeople",
  "identity-providers": ".Values.identityProviders.file",
};

// biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
type Node = any;

/** What Helm executes, as words that YAML keeps as they are until the text is made. */
class Actions {
  readonly #texts: string[] = [];

  /** In the place of a value; or, as a whole item of a list or as a key of a map, lines of their own. */
  text(text: string): string {
    return `zz${this.#texts.push(text) - 1}zz`;
  }

  stringify(manifest: Manifest): string {
    const text = (word: string) => this.#texts[Number(word.slice(2, -2))] ?? "";
    return stringify(manifest, { version: "1.1", lineWidth: 0 })
      .replaceAll("{{", '{{ "{{" }}')
      .replaceAll(/^( *)(?:- )?(zz\d+zz)(?:: null)?$/gm, (_, indent: string, word: string) =>
        text(word).replaceAll(/^/gm, indent),
      )
      .replaceAll(/zz\d+zz/g, text);
  }
}

/** Condition under which a component is on, such as `and .Values.externalSecrets.enabled .Values.redis.enabled`. */
function isOn(component: string): string {
  const parts = component
    .split("/")
    .map((part) =>
      part === "prometheus" ? '(include "gatehouse.prometheus" .)' : `.Values.${camelCase(part)}.enabled`,
    );
  return parts.length === 1 ? parts.join("") : `and ${parts.join(" ")}`;
}

/** Without what kustomize adds for the content of a map, whose change restarts pods. */
const plainName = (name: string) => name.replace(/-[bcdfghkmt2-9]{10}$/, "");

/** Turns the manifests of the overlay into templates, by the names of their files. */
export class Templates {
  readonly #overlay: Overlay;
  readonly #image: string;
  readonly #suffix: string;
  readonly #secrets: ReadonlySet<string>;
  #actions = new Actions();

  constructor(overlay: Overlay, { image, suffix }: { image: string; suffix: string }) {
    this.#overlay = overlay;
    this.#image = image;
    this.#suffix = suffix;
    this.#secrets = new Set(mountedSecrets(overlay.manifests).keys());
  }

  all(outside: readonly string[]): Map<string, string> {
    const files = new Map<string, string>();
    for (const manifest of this.#overlay.manifests) {
      const { kind, metadata } = manifest;
      if (kind === "Namespace" || (kind === "NetworkPolicy" && outside.includes(metadata.name))) continue;
      const component = this.#componentOf(manifest, files);
      const text = this.#template(structuredClone(manifest), component);
      const file = component === "ingress" ? `ingress-${this.#fileOf(manifest)}` : this.#fileOf(manifest);
      files.set(file, component === undefined ? text : `{{- if ${isOn(component)} }}\n${text}{{- end }}\n`);
    }
    return files;
  }

  #fileOf({ kind, metadata }: Manifest): string {
    const name = metadata.name.endsWith(this.#suffix)
      ? metadata.name.slice(0, -this.#suffix.length)
      : metadata.name;
    return `${plainName(name)}.${kind.toLowerCase()}.yaml`;
  }

  #componentOf({ kind, metadata }: Manifest, files: ReadonlyMap<string, string>): string | undefined {
    const name = plainName(metadata.name);
    if (kind === "ConfigMap" && name === "identity-providers") return name;
    const owners = this.#overlay.components.filter(({ objects }) => objects.includes(`${kind}/${name}`));
    // What two ways in both have: the overlay's own is first.
    const isSecond = owners.length > 1 && files.has(`${name}.${kind.toLowerCase()}.yaml`);
    return owners.find((owner) => owners.length === 1 || (owner.name === "ingress") === isSecond)?.name;
  }

  #template(manifest: Manifest, component: string | undefined): string {
    this.#actions = new Actions();
    const { kind, spec } = manifest;
    const name = plainName(manifest.metadata.name);
    let head = "";
    if (kind === "ConfigMap") head = this.#configMap(manifest, name);
    for (const { pod, manifest: workload } of workloadsOf([manifest])) this.#pod(pod, name, workload);
    if (kind === "StatefulSet") {
      const [claim] = spec.volumeClaimTemplates;
      this.#storage(claim.spec, ".Values.gateway.spool");
    }
    if (kind === "PersistentVolumeClaim") {
      // An uninstall must not take the evidence with it.
      manifest.metadata.annotations = { "helm.sh/resource-policy": "keep" };
      this.#storage(spec, ".Values.checkpointFile");
    }
    if (kind === "HorizontalPodAutoscaler") {
      spec.minReplicas = this.#value(`.Values.${camelCase(name)}.minReplicas`);
      spec.maxReplicas = this.#value(`.Values.${camelCase(name)}.maxReplicas`);
    }
    if (kind === "HTTPRoute") {
      spec.parentRefs = this.#value("toJson .Values.gatewayApi.parentRefs");
      spec.hostnames = this.#value("tpl (toJson .Values.gatewayApi.hostnames) .");
    }
    if (kind === "Ingress") this.#ingress(spec);
    if (kind === "ExternalSecret") this.#externalSecret(spec, name);
    if (kind === "Certificate" && spec.issuerRef.name === "gatehouse") {
      spec.issuerRef = this.#value("toJson .Values.certManager.issuer");
    }
    const proxies =
      component === "ingress" ? ".Values.ingress.proxyNamespace" : ".Values.gatewayApi.proxyNamespace";
    const text = head + this.#actions.stringify(this.#walk(manifest, "", proxies));
    // Its key is the private authority's.
    const isAuthority = kind === "Issuer" || name === "gatehouse-ca";
    return isAuthority ? `{{- if .Values.certManager.authority }}\n${text}{{- end }}\n` : text;
  }

  #value(expression: string): string {
    return this.#actions.text(`{{ ${expression} }}`);
  }

  /** Names, wherever they are. */
  #walk(node: Node, key: string, proxies: string): Node {
    if (Array.isArray(node)) return node.map((item) => this.#walk(item, key, proxies));
    if (typeof node === "object" && node !== null) {
      const isSecret = ["secret", "target"].includes(key) && this.#secrets.has(node.name);
      return Object.fromEntries(
        Object.entries(node).map(([name, value]) => [
          name,
          isSecret && name === "name" ? this.#secret(String(value)) : this.#walk(value, name, proxies),
        ]),
      );
    }
    if (typeof node !== "string") return node;
    if (key === "namespace" && node === "gatehouse") return this.#value(".Release.Namespace");
    if (key === "secretName" && this.#secrets.has(node)) return this.#secret(node);
    if (key === "image" && node.startsWith(this.#image)) return this.#value('include "gatehouse.image" .');
    if (key === "kubernetes.io/metadata.name" && node === "monitoring")
      return this.#value(".Values.prometheus.namespace");
    if (key === "kubernetes.io/metadata.name" && /^(?:envoy-gateway-system|ingress-nginx)$/.test(node)) {
      return this.#value(proxies);
    }
    if (/^[\w-]+$/.test(node) && node.endsWith(this.#suffix)) {
      return `${node.slice(0, -this.#suffix.length)}-${this.#value('include "gatehouse.migration" .')}`;
    }
    return ["name", "secretName", "claimName"].includes(key) ? plainName(node) : node;
  }

  #secret(name: string): string {
    return this.#value(`index .Values.secrets ${JSON.stringify(name)}`);
  }

  /** @returns what comes before the map. */
  #configMap({ data }: Manifest, name: string): string {
    const text = FILES[name];
    if (text !== undefined) {
      for (const file of Object.keys(data)) data[file] = this.#value(`toJson ${text}`);
      return "";
    }
    const owner = name.replace(/-settings.*$/, "");
    if (owner === name) return "";
    const isMigration = (MIGRATIONS as readonly string[]).includes(owner);
    const path = isMigration
      ? `.Values.migrations.${owner.replace("migrate-", "")}`
      : `.Values.${camelCase(owner)}`;
    const own = Object.keys(readVariables(this.#overlay, owner));
    const components = this.#overlay.components.filter(({ variables }) =>
      [...variables].some((key) => key in data),
    );
    const fromComponents = components.flatMap(({ variables }) => [...variables]);
    const lines = Object.entries(data as Record<string, string>)
      .filter(([key]) => !own.includes(key) && !fromComponents.includes(key))
      .map(
        ([key, value]) =>
          `${key}: ${key in FOLLOWING ? `{{ quote ${FOLLOWING[key]} }}` : JSON.stringify(value)}`,
      );
    for (const component of components) {
      const given = [...component.variables]
        .filter((key) => key in data)
        .map((key) => `${key}: ${JSON.stringify(data[key])}`);
      const asked = Object.entries(COMPONENT_VARIABLES)
        .filter(([key, of]) => of.component === component.name && (own.includes(key) || !(key in data)))
        .map(([key, { value }]) => `${key}: {{ quote ${value} }}`);
      lines.push(`{{- if ${isOn(component.name)} }}`, ...given, ...asked, "{{- end }}");
    }
    const include = `(include "gatehouse.${owner}-settings" . | fromYaml)`;
    const merged = `mergeOverwrite ${include}${isMigration ? "" : " .Values.env"} ${path}.env`;
    for (const key of Object.keys(data)) delete data[key];
    data[
      this.#actions.text(
        `{{- range $name, $value := ${merged} }}\n{{ $name }}: {{ tpl $value $ | quote }}\n{{- end }}`,
      )
    ] = null;
    return `{{- define "gatehouse.${owner}-settings" }}\n${lines.join("\n")}\n{{- end }}\n`;
  }

  #pod(pod: Node, name: string, workload: Manifest): void {
    for (const component of this.#overlay.components)
      this.#conditional(pod, component.volumes, isOn(component.name));
    if ((SERVICES as readonly string[]).includes(name)) {
      const container = pod.containers.find((one: Container) => one.name === name);
      container.resources = this.#value(`toJson .Values.${camelCase(name)}.resources`);
      workload.spec.template.metadata.annotations = this.#restarts(workload);
    }
    for (const volume of pod.volumes) {
      const secret = volume.projected?.sources.find(
        (source: Node) => source.secret?.name === "identity-providers",
      )?.secret;
      if (secret !== undefined) secret.items = this.#actions.text(eachKey("key", "path"));
    }
    pod[
      this.#actions.text(
        "{{- range $name, $value := .Values.pod }}\n{{- if $value }}\n{{ $name }}: {{ toJson $value }}\n{{- end }}\n{{- end }}",
      )
    ] = null;
  }

  /** Surrounds the volumes, and where they are mounted, with a condition. */
  #conditional(pod: Node, volumes: readonly string[], condition: string): void {
    const [begin, end] = [`{{- if ${condition} }}`, "{{- end }}"];
    const surround = (list: { name: string }[] = []) =>
      list.flatMap((item) =>
        volumes.includes(item.name) ? [this.#actions.text(begin), item, this.#actions.text(end)] : [item],
      );
    pod.volumes = surround(pod.volumes);
    for (const container of pod.containers) container.volumeMounts = surround(container.volumeMounts);
  }

  #restarts(workload: Manifest): Record<string, Node> {
    const maps = [...new Set(JSON.stringify(workload).match(/[\w-]+-[bcdfghkmt2-9]{10}(?=")/g) ?? [])]
      .filter((name) =>
        this.#overlay.manifests.some(({ kind, metadata }) => kind === "ConfigMap" && metadata.name === name),
      )
      .map((name) => `(include (print $.Template.BasePath "/${plainName(name)}.configmap.yaml") .)`);
    // Certificates are read again.
    const secrets = [...mountedSecrets([workload]).keys()].filter((name) => !name.endsWith("-tls"));
    const names = secrets.map((name) => `(index .Values.secrets ${JSON.stringify(name)})`).join(" ");
    const versions = `include "gatehouse.secretVersions" (dict "namespace" .Release.Namespace "names" (list ${names}))`;
    const lines = `{{- with ${versions} }}\nchecksum/secrets: {{ sha256sum . }}\n{{- end }}`;
    return {
      "checksum/config": this.#value(`print ${maps.join(" ")} | sha256sum`),
      ...(secrets.length === 0 ? {} : { [this.#actions.text(lines)]: null }),
    };
  }

  #storage(spec: Node, values: string): void {
    spec.resources.requests.storage = this.#value(`${values}.size`);
    delete spec.storageClassName;
    spec[this.#actions.text(`{{- with ${values}.storageClass }}\nstorageClassName: {{ . }}\n{{- end }}`)] =
      null;
  }

  #ingress(spec: Node): void {
    spec.ingressClassName = this.#value(".Values.ingress.className");
    spec.rules[0].host = this.#value(".Values.host");
    const hosts = this.#actions.text("[{{ .Values.host }}]");
    spec.tls = [{ hosts, secretName: this.#value(".Values.ingress.tlsSecret") }];
  }

  #externalSecret(spec: Node, name: string): void {
    spec.secretStoreRef = this.#value("toJson .Values.externalSecrets.store");
    if (name !== "identity-providers") return;
    spec.data = this.#actions.text(eachKey("secretKey", "remoteRef", "gatehouse/identity-providers"));
  }
}

/** A list in one line, with an item for each secret of an identity provider. */
function eachKey(name: string, other: string, entry?: string): string {
  const value = entry === undefined ? "{{ $key }}" : `{ key: ${entry}, property: {{ $key }} }`;
  const item = `{ ${name}: {{ $key }}, ${other}: ${value} }`;
  return `[{{ range $index, $key := .Values.identityProviders.secretKeys }}{{ if $index }}, {{ end }}${item}{{ end }}]`;
}

/** Names of the Secrets that pods mount, with the keys that they take. */
export function mountedSecrets(manifests: readonly Manifest[]): Map<string, Set<string>> {
  const secrets = new Map<string, Set<string>>();
  for (const { pod } of workloadsOf(manifests)) {
    const sources = pod.volumes.flatMap((volume: Node) => volume?.projected?.sources ?? [volume]);
    for (const { secret } of sources) {
      const name = secret?.secretName ?? secret?.name;
      if (name === undefined) continue;
      const keys = secrets.get(name) ?? new Set();
      for (const { key } of secret.items) keys.add(key);
      secrets.set(name, keys);
    }
  }
  return secrets;
}

/** What the overlay itself says for a process. */
export function readVariables(overlay: Overlay, owner: string): Record<string, string> {
  if (!(SERVICES as readonly string[]).includes(owner)) {
    const map = overlay.manifests.find(({ metadata }) => metadata.name.startsWith(`${owner}-settings`));
    return { DATABASE_URL: map?.data.DATABASE_URL };
  }
  const text = overlay.read(`${owner}.env`) + overlay.read("tracing.env");
  return Object.fromEntries(
    [...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, key = "", value = ""]) => [key, value]),
  );
}
