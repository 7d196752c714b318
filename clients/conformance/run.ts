import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { DRIVERS, type DriverCase } from "./drivers.ts";
import { MissingToolError } from "./tools.ts";

const EXIT_USAGE = 64;
const KNOWN = Object.entries(DRIVERS).flatMap(([name, { doors }]) => [
  name,
  ...doors.map((door) => `${name}:${door}`),
]);

/** `npm run conformance [-- node:http go …]`: builds the drivers, and runs all rules for each door that is asked for, side by side. */
const asked = process.argv.slice(2);
const unknown = asked.find((name) => !KNOWN.includes(name));
if (unknown !== undefined) {
  process.stderr.write(`conformance: no verifier is called ${unknown}. There are ${KNOWN.join(", ")}\n`);
  process.exit(EXIT_USAGE);
}

async function casesOf(name: string): Promise<DriverCase[]> {
  const { doors = [], build } = DRIVERS[name] ?? {};
  const chosen = doors.filter(
    (door) => asked.length === 0 || asked.includes(name) || asked.includes(`${name}:${door}`),
  );
  if (chosen.length === 0) return [];
  try {
    const command = (await build?.()) ?? [];
    return chosen.map((door) => ({ name, door, command }));
  } catch (error) {
    if (!(error instanceof MissingToolError)) throw error;
    process.stderr.write(`conformance: ${name} is NOT tested: ${error.message}\n`);
    return [];
  }
}

const cases = await Promise.all(Object.keys(DRIVERS).map(casesOf));
const { status } = spawnSync("vitest", ["run", "--config", join(import.meta.dirname, "vitest.config.ts")], {
  env: { ...process.env, CONFORMANCE_CASES: JSON.stringify(cases.flat()) },
  stdio: "inherit",
});
process.exitCode = status ?? 1;
