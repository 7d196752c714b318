import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Ports by variable name. */
export const PORTS_FILE = "ports.json";

const portsSchema = z.record(z.string(), z.int().min(1).max(65_535));

/** Undefined without a file. @throws {CliError} 78. */
export function localPorts(home: string): Readonly<Record<string, number>> | undefined {
  const path = join(home, PORTS_FILE);
  try {
    return portsSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new CliError(`${path} contains no valid ports: run \`npm start\` on this home again.`, {
      exitCode: EXIT.config,
      code: "configuration",
      cause: error,
    });
  }
}
