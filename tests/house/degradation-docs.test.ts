import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { contractTable } from "#trials/degradation/contract-table.ts";

const text = readFileSync(join(import.meta.dirname, "..", "..", "docs", "degradation.md"), "utf8");

test("the table of degradation.md is the contract that the flow tries", () => {
  const [, table] = /\n(\| What is away[\s\S]*?\n\nThe calls are .*\.)\n/.exec(text) ?? [];
  expect(table).toBe(contractTable());
});
