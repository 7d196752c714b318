import { resolve } from "node:path";
import { COMMANDS } from "./commands.ts";
import { run } from "./run.ts";

const HOME = resolve(import.meta.dirname, "..", ".gatehouse");

// `| head` closes our output early: that is no failure of ours.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});

// Not `process.exit`: what was written to a pipe must still leave.
process.exitCode = await run(process.argv.slice(2), COMMANDS, {
  environment: process.env,
  defaultHome: process.env.GATEHOUSE_HOME || HOME,
  writeOut: (text) => process.stdout.write(text),
  writeError: (text) => process.stderr.write(text),
});
