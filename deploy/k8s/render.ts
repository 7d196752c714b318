import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseAllDocuments } from "yaml";

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: the shapes are Kubernetes'; tests hold them to its schemas
  [field: string]: any;
}

export const OVERLAYS = ["production", "development"] as const;
export type Overlay = (typeof OVERLAYS)[number];

const RENDER_TIMEOUT_MS = 20_000;

export function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore", timeout: RENDER_TIMEOUT_MS });
    return true;
  } catch {
    return false;
  }
}

/** Equals the input of `kubectl apply -k`. Needs no cluster. */
export function renderOverlay(overlay: Overlay): Manifest[] {
  return renderFolder(join(import.meta.dirname, "overlays", overlay));
}

export function renderFolder(folder: string): Manifest[] {
  const text = execFileSync("kubectl", ["kustomize", folder], {
    encoding: "utf8",
    timeout: RENDER_TIMEOUT_MS,
  });
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJS() as Manifest;
  });
}

/** What the production overlay may have besides. */
export interface Addition {
  components: readonly string[];
  /** By ConfigMap. */
  settings: Readonly<Record<string, string>>;
  /** `name=text` by ConfigMap. */
  files?: Readonly<Record<string, string>>;
}

/** For the installation. */
export const FIRST_ADMINISTRATOR: Addition = {
  components: ["first-administrator", "external-secrets/first-administrator"],
  settings: { "identity-service-settings": "BOOTSTRAP_ADMIN_EMAIL=admin@example.com" },
};

const SENTINEL_HOSTS = ["a", "b", "c"].map((name) => `${name}.example.internal:26379`).join();
const SENTINEL_URL = `REDIS_URL=rediss+sentinel://${SENTINEL_HOSTS}/gatehouse`;

export const SENTINELS: Addition = {
  components: ["redis-sentinel", "external-secrets/redis-sentinel"],
  settings: {
    "gateway-settings": SENTINEL_URL,
    "identity-service-settings": SENTINEL_URL,
    "token-service-settings": SENTINEL_URL,
  },
};

/** Files for the collectors of the SIEM. */
export const SIEM: Addition = { components: ["siem"], settings: {} };

export const FURTHER_DATABASES: Addition = {
  components: ["audit-logs", "token-parts"],
  settings: { "gateway-settings": "AUDIT_LOGS=0,1,2" },
  files: {
    "audit-logs": `logs.yaml=logs:
- number: 1
  url: postgres://audit-1.example.internal:5432/audit
- number: 2
  url: postgres://audit-2.example.internal:5432/audit`,
    "token-parts": `parts.yaml=parts:
- number: 1
  schema: part1
  url: postgres://token-1.example.internal:5432/token`,
  },
};

/** @param k8s the folder `deploy/k8s`. */
export function renderProduction(k8s: string, { components, settings, files = {} }: Addition): Manifest[] {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-production-"));
  try {
    const path = (name: string) => relative(folder, join(k8s, name));
    const kustomization = {
      namespace: "gatehouse",
      resources: [path("overlays/production")],
      components: components.map((name) => path(`components/${name}`)),
      configMapGenerator: [
        ...Object.entries(settings).map(([name, setting]) => ({
          name,
          behavior: "merge",
          literals: [setting],
        })),
        ...Object.entries(files).map(([name, file]) => ({ name, literals: [file] })),
      ],
    };
    writeFileSync(join(folder, "kustomization.yaml"), JSON.stringify(kustomization));
    return renderFolder(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
