import { execFileSync } from "node:child_process";
import { join } from "node:path";
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
