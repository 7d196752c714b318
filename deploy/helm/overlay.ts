import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Container, ofKind, workloadsOf } from "../k8s/manifests.ts";
import {
  FIRST_ADMINISTRATOR,
  FURTHER_DATABASES,
  type Manifest,
  renderProduction,
  SENTINELS,
  SIEM,
} from "../k8s/render.ts";

/** The production overlay as the chart describes it. */
export interface Overlay {
  /** With every component, except for the alternatives of those that it has. Names are without kustomize's suffixes. */
  manifests: readonly Manifest[];
  /** ConfigMaps whose change restarts pods: kustomize gives them another name. */
  restarting: ReadonlySet<string>;
  /** Names of what each version has for itself: the Jobs, their settings and their account. */
  versioned: ReadonlySet<string>;
  /** Names of the Secrets that pods mount, with the keys that they take. */
  secrets: ReadonlyMap<string, ReadonlySet<string>>;
  /** Reads a file of the overlay. */
  read: (file: string) => string;
}

/** @param k8s the folder `deploy/k8s`. @param suffix of the Jobs of a version. */
export function readOverlay(k8s: string, suffix: string): Overlay {
  const rendered = renderProduction(k8s, {
    ...FURTHER_DATABASES,
    components: [FIRST_ADMINISTRATOR, SENTINELS, FURTHER_DATABASES, SIEM].flatMap(
      ({ components }) => components,
    ),
    settings: { ...FIRST_ADMINISTRATOR.settings, ...FURTHER_DATABASES.settings },
  });
  let text = JSON.stringify(rendered);
  const without = (end: RegExp, manifests: readonly Manifest[]) => {
    const names = manifests.map(({ metadata }) => metadata.name).filter((name) => end.test(name));
    for (const name of names) text = text.replaceAll(`"${name}"`, `"${name.replace(end, "")}"`);
    return new Set(names.map((name) => name.replace(end, "")));
  };
  const restarting = without(/-[bcdfghkmt2-9]{10}$/, ofKind(rendered, "ConfigMap"));
  const versioned = without(new RegExp(`${suffix}$`), rendered);
  const manifests = JSON.parse(text) as Manifest[];
  return {
    manifests,
    restarting,
    versioned,
    secrets: mountedSecrets(manifests),
    read: (file) => readFileSync(join(k8s, "overlays", "production", file), "utf8"),
  };
}

/** Names of the Secrets that pods mount, with the keys that they take. */
export function mountedSecrets(manifests: readonly Manifest[]): Map<string, Set<string>> {
  const secrets = new Map<string, Set<string>>();
  for (const { pod } of workloadsOf(manifests)) {
    const sources = pod.volumes.flatMap((volume: Container) => volume.projected?.sources ?? [volume]);
    for (const { secret } of sources) {
      const name = secret?.secretName ?? secret?.name;
      if (name === undefined) continue;
      const keys = secrets.get(name) ?? new Set();
      for (const { key } of secret.items ?? []) keys.add(key);
      secrets.set(name, keys);
    }
  }
  return secrets;
}
