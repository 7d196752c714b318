import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { databaseConfig, parseConfig } from "#kit/config/config.ts";
import { partConnection, partsFileSchema } from "./parts-file.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "parts-file-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function read(text: string, more: Record<string, string> = {}) {
  const PARTS_FILE = join(folder, "parts.yaml");
  writeFileSync(PARTS_FILE, text);
  const { DATABASE_CA_FILE, DATABASE_PLAINTEXT } = databaseConfig;
  const schema = z.object({ PARTS_FILE: partsFileSchema, DATABASE_CA_FILE, DATABASE_PLAINTEXT });
  return parseConfig(schema, { PARTS_FILE, ...more }).PARTS_FILE;
}

const ONE = "parts:\n  - number: 1\n    url: postgres://127.0.0.1:5432/token\n";
const ELSEWHERE = "parts:\n  - { number: 1, url: 'postgres://127.0.0.1,db.example.internal:5433/token' }\n";

test("a part has the role of the first database, its number and its schema", () => {
  const [part] = read(`${ONE}    schema: part1\n`) ?? [];
  if (part === undefined) throw new Error("no part");
  expect(partConnection("postgres://gatehouse_token@a,b:5433/token", part)).toEqual({
    url: "postgres://gatehouse_token@127.0.0.1:5432/token",
    session: { "gatehouse.part": 1, search_path: "part1" },
  });
});

test.each([
  [ELSEWHERE, {}, "PARTS_FILE: names another host"],
  [ONE.replace("number: 1", "number: 0"), {}, "line 2, parts.0.number"],
  [ONE.replace("//", "//role:secret@"), {}, "role and password are those of DATABASE_URL"],
  [`${ONE}    schema: 'a, b'\n`, {}, "must be a schema's name"],
  [`${ONE}  - number: 1\n    url: postgres://127.0.0.1:5432/other\n`, {}, "a number is there twice"],
  [`${ONE}  - number: 2\n    url: postgres://127.0.0.1:5432/token\n`, {}, "a database is there twice"],
])("a file that cannot be meant is refused with its line: %j", (text, more, message) => {
  expect(() => read(text, more)).toThrow(message);
});

test("plaintext to another host is allowed by the setting that allows it to the first database", () => {
  expect(read(ELSEWHERE, { DATABASE_PLAINTEXT: "true" })).toHaveLength(1);
});
