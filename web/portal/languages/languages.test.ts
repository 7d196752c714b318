import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { isErrorCode } from "../../../service-kit/errors.ts";
import { de as sharedDe } from "../../ui/languages/de.ts";
import { en as sharedEn } from "../../ui/languages/en.ts";
import { de } from "./de.ts";
import { en } from "./en.ts";

const WEB = resolve(import.meta.dirname, "..", "..");

function textsOf(tree: object, path = ""): Map<string, string> {
  return new Map(
    Object.entries(tree).flatMap(([key, value]) =>
      typeof value === "string" ? [[path + key, value]] : [...textsOf(value, `${path}${key}.`)],
    ),
  );
}
const english = textsOf({ ...sharedEn, ...en });
const german = textsOf({ ...sharedDe, ...de });
const baseOf = (key: string) => key.replace(/_(zero|one|other)$/, "");
const valuesIn = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name).sort();

test("every text is there in both languages, with the same values", () => {
  expect([...german.keys()]).toEqual([...english.keys()]);
  for (const [key, text] of english) {
    expect(text.trim(), key).not.toBe("");
    expect(valuesIn(german.get(key) ?? ""), key).toEqual(valuesIn(text));
  }
});

test("no two texts of the portal and of what it shares have the same place", () => {
  expect(Object.keys(en).filter((key) => key in sharedEn)).toEqual([]);
});

const sources = ["ui", "portal"]
  .flatMap((folder) =>
    readdirSync(join(WEB, folder), { recursive: true, encoding: "utf8" }).map((name) =>
      join(WEB, folder, name),
    ),
  )
  .filter((path) => /\.tsx?$/.test(path) && !path.includes("languages"))
  .map((path) => readFileSync(path, "utf8"));

test("every text that the pages name exists, and every text is named", () => {
  const named = new Set(
    sources.flatMap((text) => [...text.matchAll(/"((?:[\w-]+\.)+[\w-]+)"/g)].map(([, key = ""]) => key)),
  );
  const bases = new Set([...english.keys()].map(baseOf));
  const called = sources.flatMap((text) =>
    [...text.matchAll(/\b(?:t|textOf|translate)\(\s*"([^"]+)"/g)].map(([, key = ""]) => key),
  );
  expect(called.length).toBeGreaterThan(80);
  expect(called.filter((key) => !bases.has(key))).toEqual([]);
  // By a name that is put together: `errors.<code>`, `mailLinks.<link>.<part>`, `tools.themes.<theme>`.
  const isComputed = (key: string) => /^(?:errors|mailLinks\.[\w-]+|tools\.themes)\./.test(key);
  expect([...bases].filter((key) => !named.has(key) && !isComputed(key))).toEqual([]);
});

test("every code that has a text of its own is one of the API's or of the browser's", () => {
  const ours = /^(offline|other|wait|unavailable|wrong_password|cancelled|passkey_\w+|origin_not_allowed)$/;
  const codes = Object.keys(sharedEn.errors).map(baseOf);
  expect(codes.filter((code) => !isErrorCode(code) && !ours.test(code))).toEqual([]);
});
