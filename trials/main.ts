import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { TRIALS, type Trial } from "./trials.ts";

/** `npm run trial -- <name> [arguments of the trial…]`, or `npm run trial -- --list` (also `--help`). Ends with the code of the trial. */

const ROOT = resolve(import.meta.dirname, "..");
const EXIT_USAGE = 64;

const [name = "", ...rest] = process.argv.slice(2);
const found = Object.hasOwn(TRIALS, name) ? TRIALS[name] : undefined;
if (name === "--list" || name === "--help") console.log(list());
else if (found !== undefined) process.exitCode = await run(found, rest);
else {
  console.error(
    `${name === "" ? "Name a trial" : `There is no trial "${name}"`}: npm run trial -- <name>\n${list()}`,
  );
  process.exitCode = EXIT_USAGE;
}

function list(): string {
  return Object.entries(TRIALS)
    .map(([trial, { shows, takes }]) => `${trial.padEnd(17)} ${takes.padEnd(13)} ${shows}`)
    .join("\n");
}

async function run({ run: how, env }: Trial, given: readonly string[]): Promise<number> {
  const program =
    "node" in how ? how.node : [join("node_modules", "vitest", "vitest.mjs"), "run", ...how.vitest];
  const child = spawn(process.execPath, [...program, ...given], {
    cwd: ROOT,
    env: { ...env, ...process.env },
    stdio: "inherit",
  });
  // The trial ends first, and cleans up.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
  const [code] = await once(child, "exit");
  return code ?? 1;
}
