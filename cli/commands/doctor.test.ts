import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run } from "../run.ts";
import { COMMANDS } from "./commands.ts";

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "gatehouse-doctor-"));
});
afterAll(() => rmSync(home, { recursive: true }));

/** Of an empty home, in which nothing is well. */
async function doctor(hasColors: boolean, ...argv: string[]): Promise<string> {
  let out = "";
  const code = await run(["doctor", "--home", home, ...argv], COMMANDS, {
    environment: {},
    defaultHome: home,
    writeOut: (text) => {
      out += text;
    },
    writeError: expect.unreachable,
    hasColors: () => hasColors,
  });
  expect(code).toBe(1);
  return out;
}

test("what is not well stands below its subject, named once; failures stand last, and then the counts", async () => {
  const lines = (await doctor(false)).trimEnd().split("\n");
  const heads = lines.filter((line) => !line.startsWith(" "));
  expect(new Set(heads).size).toBe(heads.length);
  expect(heads).toEqual(expect.arrayContaining(["token-service", "this program", join(home, "tls")]));
  expect(heads.at(-1)).toMatch(/^\d+ ok, \d+ warnings, \d+ failed$/);
  const below = lines.slice(lines.indexOf("token-service") + 1);
  expect(below[0]).toMatch(/^ {2}warning {2}port: not checked: TOKEN_SERVICE_ADDRESS: is required/);
  expect(lines.findLastIndex((line) => line.startsWith("  warning "))).toBeLessThan(
    lines.findIndex((line) => line.startsWith("  FAILED ")),
  );
});

test("colours are for a terminal that shows them, and never in JSON", async () => {
  const [plain, coloured, json] = [await doctor(false), await doctor(true), await doctor(true, "--json")];
  expect(coloured).toContain("\n  \u001b[31mFAILED\u001b[39m ");
  expect(stripVTControlCharacters(coloured)).toBe(plain);
  for (const text of [plain, json]) expect(text).not.toContain("\u001b");
});
