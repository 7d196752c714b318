import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import type { Metrics } from "./metrics.ts";

export const VERSION = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(resolve(import.meta.dirname, "..", "package.json"), "utf8"))).version;

export function describeBuild(metrics: Metrics): void {
  metrics
    .gauge("gatehouse_build_info", "1, with the versions that run.", ["version", "node"])
    .set({ version: VERSION, node: process.versions.node }, 1);
}
