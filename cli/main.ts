#!/usr/bin/env node
// Run by `npm exec gatehouse` and `node cli/main.ts`.
import { writeFileSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { Socket } from "node:net";
import { join } from "node:path";
import { isLostTypeQuery } from "#kit/database/database-failure.ts";
import { lostOutput } from "./lost-output.ts";

const ROOT = join(import.meta.dirname, "..");

// Of what is imported below it: half of a command's CPU time is compiling. A folder that cannot be written is ignored.
enableCompileCache(join(ROOT, "node_modules", ".cache", "gatehouse"));
const [{ COMMANDS }, { run }] = await Promise.all([import("./commands/commands.ts"), import("./run.ts")]);

// Closed output, as by `| head`, is not a failure.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

// As in the services: the doctor meets databases that end in the middle of a connect.
process.on("unhandledRejection", (error) => {
  if (!isLostTypeQuery(error)) throw error;
});

// Node's stream of a file takes a write of a part, as on a disk that is almost full, for one of all.
const isStream = process.stdout instanceof Socket;

// `process.exit` would lose output that is still in the pipe.
process.exitCode = await run(process.argv.slice(2), COMMANDS, {
  environment: process.env,
  defaultHome: process.env.GATEHOUSE_HOME || join(ROOT, ".gatehouse"),
  // Backpressure bounds memory.
  writeOut: (text) =>
    new Promise<void>((resolve, reject) => {
      if (isStream) process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
      else resolve(writeFileSync(process.stdout.fd, text));
    }).catch((error) => {
      throw lostOutput(error);
    }),
  writeError: (text) => process.stderr.write(text),
  isTerminal: () => process.stdout.isTTY,
  hasColors: () => process.stdout.isTTY && process.stdout.hasColors(),
  // A terminal that does not know its size says 0.
  columns: () =>
    process.stderr.isTTY && process.env.TERM !== "dumb" ? process.stderr.columns || 80 : undefined,
});
