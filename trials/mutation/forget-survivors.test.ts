import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { forgetSurvivors } from "./forget-survivors.ts";

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
