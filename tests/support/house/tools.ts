import { existsSync } from "node:fs";
import { resolve } from "node:path";

/** Whether the packages of `tools/` are installed, which are not among those of `npm ci`. */
export const hasTools = existsSync(resolve(import.meta.dirname, "..", "..", "..", "tools", "node_modules"));

/** @throws if they are not. */
export function requireTools(purpose: string): void {
  if (!hasTools) throw new Error(`${purpose} needs the packages of tools/: npm run tools`);
}
