import { globSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { MODULES } from "./modules.ts";

const ROOT = resolve(import.meta.dirname, "..", "..");

test("every file and every test that a module names exists", () => {
  const patterns = Object.values(MODULES).flatMap(({ mutate, tests }) => [...mutate, ...tests]);
  expect(patterns.length).toBeGreaterThan(100);
  const missing = patterns.filter(
    (pattern) => !pattern.startsWith("!") && globSync(pattern, { cwd: ROOT }).length === 0,
  );
  expect(missing).toEqual([]);
});
