import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { embeddedServer } from "#tests/support/database/postgres-test-server.ts";
import { requireTools } from "#tests/support/house/tools.ts";
import { forgetSurvivors } from "./forget-survivors.ts";
import { MODULES, type MutationModule } from "./modules.ts";
import { mutateSql } from "./mutate-sql.ts";

/**
 * `npm run trial -- mutation [module…]`: changes one line at a time in the modules that carry a promise, runs the tests that hold
 * them, and writes the share of changes that a test noticed into docs/mutation.md. Slow: one to fifteen minutes a module.
 */

const ROOT = resolve(import.meta.dirname, "..", "..");
const PAPER = join(ROOT, "docs", "mutation.md");
/** Results of earlier runs, by module. Not in the repository. */
const MEMORY = ".stryker";
/** A mutant that loops is killed after this and the usual time of its tests together. */
const MUTANT_TIMEOUT_MS = 15_000;

/** What became of one change. */
export interface Mutant {
  /** `file:line`, from the root. */
  place: string;
  /** What was changed, on one line. */
  change: string;
  /** `timedOut` counts as killed, unless the machine was busy. `noCoverage`: no test runs the line. */
  outcome: "killed" | "timedOut" | "survived" | "noCoverage";
}

interface StrykerReport {
  files: Record<
    string,
    {
      source: string;
      mutants: {
        mutatorName: string;
        replacement?: string;
        status: string;
        location: { start: { line: number; column: number }; end: { line: number; column: number } };
      }[];
    }
  >;
}

function mutateCode(name: string, module: MutationModule): Mutant[] {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-mutation-"));
  const report = join(folder, "report.json");
  const config = join(folder, "stryker.config.json");
  const memory = join(ROOT, MEMORY, `${name}.json`);
  forgetSurvivors(memory);
  writeFileSync(
    config,
    JSON.stringify({
      testRunner: "vitest",
      plugins: ["@stryker-mutator/vitest-runner", join(ROOT, "tools", "leave-texts.ts")],
      ignorers: ["texts"],
      // A killed mutant stays killed until its line or that test changes: after new tests only survivors run.
      incremental: true,
      incrementalFile: memory,
      vitest: { configFile: "trials/mutation/vitest.config.ts", related: false },
      coverageAnalysis: "perTest",
      mutate: module.mutate,
      // More than the two cores: tests mostly wait.
      concurrency: 6,
      timeoutMS: MUTANT_TIMEOUT_MS,
      // TypeScript 7 has no programming interface for Stryker to rewrite the file with; nothing here needs it.
      tsconfigFile: "none.json",
      tempDirName: ".stryker-tmp",
      reporters: ["progress-append-only", "json"],
      jsonReporter: { fileName: report },
    }),
  );
  try {
    const { status } = spawnSync(
      process.execPath,
      [join(ROOT, "tools/node_modules/.bin/stryker"), "run", config],
      {
        cwd: ROOT,
        stdio: ["ignore", "inherit", "inherit"],
        env: { ...process.env, MUTATION_TESTS: module.tests.join(",") },
      },
    );
    if (status !== 0) throw new Error(`stryker ended with ${status}`);
    return mutantsIn(JSON.parse(readFileSync(report, "utf8")) as StrykerReport);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const OUTCOMES: Readonly<Record<string, Mutant["outcome"]>> = {
  Killed: "killed",
  Timeout: "timedOut",
  Survived: "survived",
  NoCoverage: "noCoverage",
};

/** Mutants that do not compile or that Stryker leaves out say nothing about the tests. */
function mutantsIn(report: StrykerReport): Mutant[] {
  return Object.entries(report.files).flatMap(([file, { source, mutants }]) =>
    mutants.flatMap(({ status, location, mutatorName, replacement = "" }) => {
      const outcome = OUTCOMES[status];
      if (outcome === undefined) return [];
      const line = source.split("\n")[location.start.line - 1]?.trim() ?? "";
      const change = `${mutatorName}: ${line.slice(0, 80)} => ${replacement.replaceAll(/\s+/g, " ").slice(0, 60)}`;
      return [{ place: `${file}:${location.start.line}`, change, outcome }];
    }),
  );
}

/** Writes a module's line of the table; the rest of the page stays as it is. */
function writeScore(name: string, mutants: readonly Mutant[]): void {
  const killed = mutants.filter(({ outcome }) => outcome === "killed" || outcome === "timedOut").length;
  const score = ((100 * killed) / mutants.length).toFixed(1);
  const row = `| ${name} | ${mutants.length} | ${score} % |`;
  const paper = readFileSync(PAPER, "utf8");
  const old = new RegExp(`^\\| ${name} \\|.*$`, "m");
  if (!old.test(paper)) throw new Error(`docs/mutation.md has no line for ${name}`);
  writeFileSync(PAPER, paper.replace(old, row));
  process.stdout.write(`${row}\n`);
}

async function main(names: readonly string[]): Promise<void> {
  const unknown = names.filter((name) => MODULES[name] === undefined);
  if (unknown.length > 0)
    throw new Error(`no module ${unknown.join(", ")}: ${Object.keys(MODULES).join(", ")}`);
  requireTools("mutation");
  // One for all runs: each test process would start its own, also after each change that is killed for its time.
  const { server, stop } = await embeddedServer();
  process.env.TEST_DATABASE_URL = `postgres://${server.username}:${encodeURIComponent(server.password)}@${server.host}:${server.port}`;
  try {
    for (const [name, module] of Object.entries(MODULES)) {
      if (names.length > 0 && !names.includes(name)) continue;
      const mutants = [...mutateSql(ROOT, module), ...mutateCode(name, module)];
      for (const { place, change, outcome } of mutants) {
        if (outcome !== "killed") process.stdout.write(`${outcome} ${place} ${change}\n`);
      }
      writeScore(name, mutants);
    }
  } finally {
    await stop();
  }
}

await main(process.argv.slice(2));
