import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Spool } from "./spool.ts";

/** Number of records in memory. */
const BLOCK = 32_768;

let folder: string;
let spool: Spool;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-spool-"));
  vi.stubEnv("TMPDIR", folder);
  spool = new Spool(32, BLOCK);
});

afterEach(() => {
  spool.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

function hashOf(index: number): Buffer {
  const hash = Buffer.alloc(32);
  hash.writeUInt32BE(index);
  return hash;
}

test.each([
  ["less than a block stays in memory", 3, 0],
  ["a full block stays in memory", BLOCK, 0],
  ["more than a block goes to a temporary file", BLOCK + 1, 1],
  ["so do more than two", 2 * BLOCK + 5, 1],
])("records are returned in order: %s", (_name, count, files) => {
  for (let index = 0; index < count; index += 1) spool.append(hashOf(index));
  expect(readdirSync(folder)).toHaveLength(files);
  let good = 0;
  for (let index = 0; index < count; index += 1) if (spool.next().readUInt32BE() === index) good += 1;
  expect(good).toBe(count);
  expect(() => spool.next()).toThrow("the spool has no further record");
  spool.close();
  expect(readdirSync(folder)).toEqual([]);
  spool.close();
});

test("an empty spool has no record", () => {
  expect(() => spool.next()).toThrow("the spool has no further record");
});
