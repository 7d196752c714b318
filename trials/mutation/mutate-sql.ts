import { spawnSync } from "node:child_process";
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import type { MutationModule } from "./modules.ts";
import type { Mutant } from "./mutate.ts";

/**
 * Stryker changes no SQL, and half of the promises here are conditions of a statement. Each line of a store that is a
 * further condition, a lock or one of several assignments is taken away, one at a time.
 */

const RUN_TIMEOUT_MS = 300_000;
const LEFT_OUT = new Set(["node_modules", ".git", ".gatehouse", ".stryker-tmp"]);

/** @returns the numbers of the lines, from 0, that SQL is still valid without. */
export function removableLines(source: string): number[] {
  const lines = source.split("\n");
  let isInSql = false;
  return lines.flatMap((line, index) => {
    const ticks = line.split("`").length - 1;
    const startsInSql = isInSql;
    if (ticks % 2 === 1) isInSql = !isInSql;
    if (!startsInSql || ticks > 0) return [];
    const text = line.trim();
    const isCondition = /^(and|or)\b/.test(text);
    const isLock = /^for (update|share|no key update)/.test(text);
    const isAssignment = /^\w+ = .*,$/.test(text);
    const nestsEvenly = text.split("(").length === text.split(")").length;
    return (isCondition || isLock || isAssignment) && nestsEvenly ? [index] : [];
  });
}

export function mutateSql(root: string, module: MutationModule): Mutant[] {
  const files = globSync([...module.mutate.filter((pattern) => !pattern.startsWith("!"))], { cwd: root });
  const stores = files.filter((file) => file.endsWith("-store.ts"));
  if (stores.length === 0) return [];
  const copy = mkdtempSync(join(tmpdir(), "gatehouse-sql-mutation-"));
  try {
    cpSync(root, copy, {
      recursive: true,
      filter: (path) => !LEFT_OUT.has(basename(path)),
    });
    symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
    // If the tests fail without a mutation, they kill every mutant.
    if (!testsPass(copy, module))
      throw new Error(`the tests fail without a change: ${module.tests.join(" ")}`);
    return stores.flatMap((store) => mutateStore(copy, store, module));
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function mutateStore(copy: string, store: string, module: MutationModule): Mutant[] {
  const path = join(copy, store);
  const source = readFileSync(path, "utf8");
  const lines = source.split("\n");
  try {
    return removableLines(source).map((index) => {
      writeFileSync(path, lines.toSpliced(index, 1).join("\n"));
      const outcome = testsPass(copy, module) ? "survived" : "killed";
      return { place: `${store}:${index + 1}`, change: `without: ${lines[index]?.trim()}`, outcome };
    });
  } finally {
    writeFileSync(path, source);
  }
}

function testsPass(copy: string, module: MutationModule): boolean {
  const vitest = join(copy, "node_modules", "vitest", "vitest.mjs");
  const { status } = spawnSync(
    process.execPath,
    [vitest, "run", "--bail=1", "--config=trials/mutation/vitest.config.ts", "--root=."],
    {
      cwd: copy,
      stdio: "ignore",
      timeout: RUN_TIMEOUT_MS,
      env: { ...process.env, MUTATION_TESTS: module.tests.join(",") },
    },
  );
  return status === 0;
}
