import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { TRIALS } from "./trials.ts";

const ROOT = resolve(import.meta.dirname, "..");
const MAIN = join(ROOT, "trials", "main.ts");
const filesOf = Object.values(TRIALS).flatMap(({ run }) =>
  ("node" in run ? run.node : run.vitest).filter((argument) => argument.endsWith(".ts")),
);

test("every trial names a file that exists, and every bench and trial has a name", () => {
  expect(filesOf.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  const there = globSync(["trials/bench/*.ts", "trials/**/*.trial.test.ts"], { cwd: ROOT });
  expect(there.length).toBeGreaterThan(20);
  expect(there.filter((file) => !filesOf.includes(file))).toEqual([]);
});

test.each(["--list", "--help"])("%s says what each trial shows and how long it takes", (option) => {
  const text = execFileSync(process.execPath, [MAIN, option], { encoding: "utf8" });
  const lines = Object.entries(TRIALS).map(
    ([name, { shows, takes }]) => new RegExp(`^${name} +${takes} +${shows}$`, "m"),
  );
  for (const line of lines) expect(text).toMatch(line);
});

test.each([[[]], [["nothing"]], [["constructor"]]])("%j names no trial: the names, and 64", (args) => {
  const { status, stderr } = spawnSync(process.execPath, [MAIN, ...args], { encoding: "utf8" });
  expect(status).toBe(64);
  expect(stderr).toContain("npm run trial -- <name>\nattack");
});

test("a trial gets its arguments, and its code is the answer", () => {
  const { status, stdout } = spawnSync(process.execPath, [MAIN, "rolling", "--help"], { encoding: "utf8" });
  expect([status, stdout]).toEqual([0, expect.stringContaining("npm run trial -- rolling")]);
});
