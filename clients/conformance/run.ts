import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { DRIVERS, type DriverCase } from "./drivers.ts";
import { MissingToolError } from "./tools.ts";

/** `npm run conformance [-- node:http go …]`: builds the drivers, and runs all rules for each of their doors, or the one, side by side. */
const asked = new Map(process.argv.slice(2).map((text) => text.split(":") as [string, string | undefined]));
const names = [...asked.keys()];
const unknown = [...asked].filter(
  ([name, door]) => !DRIVERS[name]?.doors.some((each) => door === undefined || each === door),
);
if (unknown.length > 0)
  throw new Error(`no verifier or door is called ${unknown.join()}: ${Object.keys(DRIVERS)}`);

async function casesOf(name: string): Promise<DriverCase[]> {
  const { doors = [], build } = DRIVERS[name] ?? {};
  try {
    const command = (await build?.()) ?? [];
    const only = asked.get(name);
    return doors.flatMap((door) => (only === undefined || door === only ? [{ name, door, command }] : []));
  } catch (error) {
    if (!(error instanceof MissingToolError)) throw error;
    process.stderr.write(`conformance: ${name} is NOT tested: ${error.message}\n`);
    return [];
  }
}

const cases = await Promise.all((names.length > 0 ? names : Object.keys(DRIVERS)).map(casesOf));
const { status } = spawnSync("vitest", ["run", "--config", join(import.meta.dirname, "vitest.config.ts")], {
  env: { ...process.env, CONFORMANCE_CASES: JSON.stringify(cases.flat()) },
  stdio: "inherit",
});
process.exitCode = status ?? 1;
