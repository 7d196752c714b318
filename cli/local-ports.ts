import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Which ports the last start of a local Gatehouse listened on, by the variables that move them. In its home. */
export const PORTS_FILE = "ports.json";

const portsSchema = z.record(z.string(), z.int().min(1).max(65_535));

/**
 * The ports that `npm start` has written into a home: the variables of this process may be those of another Gatehouse.
 *
 * @returns undefined if there is no such file.
 * @throws {CliError} 78, if it cannot be read.
 */
export function localPorts(home: string): Readonly<Record<string, number>> | undefined {
  const path = join(home, PORTS_FILE);
  try {
    return portsSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new CliError(
      `${path} does not say which ports Gatehouse listens on: run \`npm start\` on this home again.`,
      {
        exitCode: EXIT.config,
        code: "configuration",
        cause: error,
      },
    );
  }
}
