import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Deployment, StatefulSet } from "kubernetes-models/apps/v1";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2";
import { Job } from "kubernetes-models/batch/v1";
import { Ingress, NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import {
  ConfigMap,
  Namespace,
  PersistentVolumeClaim,
  Pod,
  Secret,
  Service,
  ServiceAccount,
} from "kubernetes-models/v1";
import type { Manifest } from "../deploy/k8s/render.ts";

const ROOT = resolve(import.meta.dirname, "..");

/** Kubernetes' own OpenAPI schemas, as npm `kubernetes-models` has compiled them. */
const MODELS = {
  "apps/v1": { Deployment, StatefulSet },
  "autoscaling/v2": { HorizontalPodAutoscaler },
  "batch/v1": { Job },
  "networking.k8s.io/v1": { Ingress, NetworkPolicy },
  "policy/v1": { PodDisruptionBudget },
  v1: { ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount },
} as const;

/** Of other projects; they have no schema here. */
export const CUSTOM_KINDS = [
  "Certificate",
  "ExternalSecret",
  "HTTPRoute",
  "Issuer",
  "PodMonitor",
  "PrometheusRule",
];

interface Model {
  new (data: never): { validate(): void };
}

/** What Kubernetes would refuse in a manifest: wrong types, missing members. A kind without a schema is a problem, too. */
export function schemaProblems(manifest: Manifest): string[] {
  const { apiVersion, kind, metadata } = manifest;
  if (CUSTOM_KINDS.includes(kind)) return [];
  const model = (MODELS as Record<string, Record<string, Model>>)[apiVersion]?.[kind];
  if (model === undefined) return [`${kind} ${metadata.name}: no schema for ${apiVersion}`];
  try {
    new model(manifest as never).validate();
    return [];
  } catch (error) {
    return [`${kind} ${metadata.name}: ${(error as Error).message}`];
  }
}

/**
 * Members that Kubernetes does not know: misspelt ones, which it would drop or refuse. The schemas allow them; the types
 * of the same package do not, so the compiler looks at the manifests as literals of these types.
 */
export function unknownMembers(manifests: readonly Manifest[]): string[] {
  const known = manifests.filter(({ kind }) => !CUSTOM_KINDS.includes(kind));
  const types = [...new Set(known.map(({ apiVersion, kind }) => `${apiVersion}/${kind}`))];
  const alias = (type: string) => type.replaceAll(/\W/g, "_");
  const source = [
    ...types.map((type) => {
      const kind = type.slice(type.lastIndexOf("/") + 1);
      return `import type { I${kind} as ${alias(type)} } from "kubernetes-models/${type}";`;
    }),
    ...known.map((manifest, index) => {
      const type = alias(`${manifest.apiVersion}/${manifest.kind}`);
      return `export const _${index}: ${type} = ${JSON.stringify(manifest, undefined, 1)};`;
    }),
  ].join("\n");
  const cache = join(import.meta.dirname, "node_modules", ".cache");
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, "manifests-"));
  try {
    writeFileSync(join(directory, "manifests.ts"), source);
    writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
    const flags = [
      "--noEmit",
      "--strict",
      "--skipLibCheck",
      "--module",
      "nodenext",
      "--target",
      "esnext",
      "--types",
      "",
    ];
    const compiler = join(ROOT, "node_modules", "typescript", "bin", "tsc");
    execFileSync(
      process.execPath,
      [compiler, ...flags, "--ignoreConfig", "--pretty", "false", "manifests.ts"],
      {
        cwd: directory,
        encoding: "utf8",
      },
    );
    return [];
  } catch (error) {
    return String((error as { stdout?: string }).stdout)
      .split("\n")
      .filter(Boolean);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
