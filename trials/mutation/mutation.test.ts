import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { forgetSurvivors } from "./forget-survivors.ts";
import { MODULES } from "./modules.ts";
import { removableLines } from "./mutate-sql.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

test("every file and every test that a module names exists", () => {
  const patterns = Object.values(MODULES).flatMap(({ mutate, tests }) => [...mutate, ...tests]);
  expect(patterns.length).toBeGreaterThan(100);
  const missing = patterns.filter(
    (pattern) => !pattern.startsWith("!") && globSync(pattern, { cwd: ROOT }).length === 0,
  );
  expect(missing).toEqual([]);
});

const memoryOf = (...statuses: string[]) =>
  JSON.stringify({ files: { "a.ts": { source: "1", mutants: statuses.map((status) => ({ status })) } } });

test("what survived the run before is tried again, and the rest of its results is kept; the first run has none", () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-mutation-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "limits.json");
  forgetSurvivors(path);
  writeFileSync(path, memoryOf("Survived", "Killed", "Timeout", "Survived"));
  forgetSurvivors(path);
  expect(readFileSync(path, "utf8")).toBe(memoryOf("Killed", "Timeout"));
});

test("conditions, locks and further assignments of a statement can be taken away, and nothing else", () => {
  const source = [
    "const and = 1;", // outside of a statement
    "const rows = await sql`",
    "  update sessions set",
    "    generation = generation + 1,",
    "    leaf_seen = false",
    "  where id = 1",
    "    and revoked_at is null",
    "    and exists (",
    "      select 1",
    "    )",
    "    or (a = 1 and b = 2)",
    "  for update",
    "`;",
    "and(1);",
  ].join("\n");
  expect(removableLines(source)).toEqual([3, 6, 10, 11]);
});
