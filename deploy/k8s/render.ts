import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";

/** A Kubernetes object, as far as this code looks at it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: the shapes are Kubernetes'; tests hold them to its schemas
  [field: string]: any;
}

/** The overlays, by their folders. */
export const OVERLAYS = ["production", "development"] as const;
export type Overlay = (typeof OVERLAYS)[number];

const RENDER_TIMEOUT_MS = 20_000;

/** True where `kubectl` can be run. */
export function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore", timeout: RENDER_TIMEOUT_MS });
    return true;
  } catch {
    return false;
  }
}

/** What `kubectl apply -k` would send for an overlay. Needs no cluster. */
export function renderOverlay(overlay: Overlay): Manifest[] {
  return renderFolder(join(import.meta.dirname, "overlays", overlay));
}

/** What a folder with a `kustomization.yaml` makes. */
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
