#!/usr/bin/env node
// The program of `npm exec gatehouse` and `node cli/main.ts`.
import { resolve } from "node:path";
import { COMMANDS } from "./commands/commands.ts";
import { OutputClosedError } from "./output-closed-error.ts";
import { run } from "./run.ts";

const HOME = resolve(import.meta.dirname, "..", ".gatehouse");

// `| head` closes our output early: that is no failure of ours.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

// Not `process.exit`: what was written to a pipe must still leave.
process.exitCode = await run(process.argv.slice(2), COMMANDS, {
  environment: process.env,
  defaultHome: process.env.GATEHOUSE_HOME || HOME,
  // Settles when the text has left: what comes faster than it is read would else pile up in memory.
  writeOut: (text) =>
    new Promise<void>((resolve, reject) => {
      process.stdout.write(text, (error) =>
        error ? reject(new OutputClosedError("", { cause: error })) : resolve(),
      );
    }),
  writeError: (text) => process.stderr.write(text),
  isWatched: process.stderr.isTTY === true,
});
