import type { Manifest } from "./render.ts";

/** A resource that creates pods. */
export interface Workload {
  kind: string;
  name: string;
  /** Labels of its pods. */
  labels: Record<string, string>;
  manifest: Manifest;
  // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
  pod: any;
}

export interface Container {
  name: string;
  image: string;
  args?: string[];
  ports?: { name: string; containerPort: number }[];
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean; subPath?: string }[];
  // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
  [field: string]: any;
}

const WORKLOAD_KINDS = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Pod"];

export function ofKind(manifests: readonly Manifest[], kind: string): Manifest[] {
  return manifests.filter((manifest) => manifest.kind === kind);
}

/** @throws unless it exists. */
export function named(manifests: readonly Manifest[], kind: string, name: string): Manifest {
  const found = manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);
  if (found === undefined) throw new Error(`no ${kind} ${name}`);
  return found;
}

export function workloadsOf(manifests: readonly Manifest[]): Workload[] {
  return manifests
    .filter(({ kind }) => WORKLOAD_KINDS.includes(kind))
    .map((manifest) => {
      const template = manifest.spec.jobTemplate?.spec.template ?? manifest.spec.template ?? manifest;
      return {
        kind: manifest.kind,
        name: manifest.metadata.name,
        labels: template.metadata.labels ?? {},
        manifest,
        pod: template.spec,
      };
    });
}

/** Includes init containers. */
export function containersOf({ pod }: Pick<Workload, "pod">): Container[] {
  return [...(pod.initContainers ?? []), ...pod.containers];
}

interface Selector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** An empty selector selects all. */
export function selects(selector: Selector, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      if (operator !== "In") throw new Error(`selector operator ${operator}`);
      return values.includes(labels[key] ?? "");
    })
  );
}

export function environmentOf(manifests: readonly Manifest[], container: Container): Record<string, string> {
  const fromMaps = (container.envFrom ?? []).map(
    (source: { configMapRef: { name: string } }) =>
      named(manifests, "ConfigMap", source.configMapRef.name).data,
  );
  const own = (container.env ?? []).map((entry: { name: string; value: string }) => [
    entry.name,
    entry.value,
  ]);
  return Object.assign({}, ...fromMaps, Object.fromEntries(own));
}

export interface MountedFile {
  path: string;
  from: { kind: "Secret" | "ConfigMap"; name: string; key: string };
}

/** Files of mounted volumes. Only explicitly listed keys are included. */
export function mountedFiles({ pod }: Pick<Workload, "pod">, container: Container): MountedFile[] {
  return (container.volumeMounts ?? []).flatMap(({ name, mountPath }) => {
    // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
    const volume = pod.volumes?.find((candidate: any) => candidate.name === name);
    const sources = volume?.projected?.sources ?? [volume ?? {}];
    // biome-ignore lint/suspicious/noExplicitAny: Kubernetes' shape
    return sources.flatMap((source: any): MountedFile[] => {
      const items: { key: string; path: string }[] = source.secret?.items ?? source.configMap?.items ?? [];
      const kind = source.secret === undefined ? "ConfigMap" : "Secret";
      const from = source.secret?.secretName ?? source.secret?.name ?? source.configMap?.name;
      return items.map(({ key, path }) => ({
        path: `${mountPath}/${path}`,
        from: { kind, name: from, key },
      }));
    });
  });
}
