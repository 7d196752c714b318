import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";

const read = (name: string) => readFileSync(resolve(import.meta.dirname, "..", "..", "..", name), "utf8");
const { version } = z.object({ version: z.string() }).parse(JSON.parse(read("package.json")));

/** What is running. The image's build writes `REVISION`, the commit. */
export const BUILD = { version, revision: revision(), node: process.versions.node };

function revision(): string {
  try {
    return read("REVISION").trim();
  } catch {
    return "unknown";
  }
}
