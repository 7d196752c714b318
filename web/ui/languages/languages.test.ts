import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { BUILT_IN_PERMISSIONS } from "#access-file/access-file.ts";
import { AUDIT_ACTIONS } from "#audit-client/stream/audit-actions.ts";
import { builtInLanguages, PageLanguages } from "#kit/config/page-languages.ts";
import { isErrorCode } from "#kit/values/errors.ts";
import { en as consoleEn } from "../../console/languages/en.ts";
import { accountDe } from "../../portal/languages/account.de.ts";
import { accountEn } from "../../portal/languages/account.en.ts";
import { en as loginEn } from "../../portal/languages/login.en.ts";
import { de as sharedDe } from "./de.ts";
import { en as sharedEn } from "./en.ts";
import { GATEWAY_TEXTS } from "./gateway.ts";

const WEB = resolve(import.meta.dirname, "..", "..");
const PAGES = [
  {
    page: "portal",
    en: { ...loginEn, ...accountEn },
    de: { ...(await import("../../portal/languages/login.de.ts")).de, ...accountDe },
  },
  {
    page: "console",
    en: consoleEn,
    de: (await import("../../console/languages/de.ts")).de,
  },
];

function textsOf(tree: object, path = ""): Map<string, string> {
  return new Map(
    Object.entries(tree).flatMap(([key, value]) =>
      typeof value === "string" ? [[path + key, value]] : [...textsOf(value, `${path}${key}.`)],
    ),
  );
}
const baseOf = (key: string) => key.replace(/_(zero|one|other)$/, "");
const valuesIn = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name).sort();

describe.each([{ page: "ui", en: sharedEn, de: sharedDe }, { page: "gateway", ...GATEWAY_TEXTS }, ...PAGES])(
  "$page",
  ({ en, de }) => {
    test("every text is there in both languages, with the same values", () => {
      const [english, german] = [textsOf(en), textsOf(de)];
      expect([...german.keys()]).toEqual([...english.keys()]);
      for (const [key, text] of english) {
        expect(text.trim(), key).not.toBe("");
        expect(valuesIn(german.get(key) ?? ""), key).toEqual(valuesIn(text));
      }
    });
  },
);

test("the languages in files are usable, and complete", () => {
  const languages = new PageLanguages(builtInLanguages(), join(WEB, "languages"));
  expect(languages.problems).toEqual([]);
  expect(languages.added).toEqual(["es", "fr"]);
  for (const tag of languages.added) expect(languages.missing(tag), tag).toEqual([]);
});

test("French has a narrow no-break space where its typography wants one", () => {
  const text = readFileSync(join(WEB, "languages", "fr.json"), "utf8").replaceAll(/": /g, "");
  expect(text.match(/.{0,20}(?:[ \p{L}\d)}][;!?»]|[ ]:|«[^\u202f]).{0,20}/gu) ?? []).toEqual([]);
});

test.each(PAGES)("no text of the $page has the place of one that it shares", ({ en }) => {
  expect(Object.keys(en).filter((key) => key in sharedEn)).toEqual([]);
});

const sourcesIn = (...folders: string[]) =>
  folders
    .flatMap((folder) =>
      readdirSync(join(WEB, folder), { recursive: true, encoding: "utf8" }).map((name) =>
        join(WEB, folder, name),
      ),
    )
    .filter((path) => /(?<!\.test)\.tsx?$/.test(path) && !path.includes("languages"))
    .map((path) => readFileSync(path, "utf8"));
const SHARED = ["ui", "session"];
/** Below these, keys are put together, such as `errors.<code>` and `mailLinks.<link>.<part>`. */
const COMPUTED = [
  "errors problems tools.themes approval.fields approval.states approvals.states activity.kinds",
  "ended figures mails mailStates failures keyStates kinds kindHints services amr actions actionGroups",
  "permissionGroups permissionTexts permissionDangers pausedReasons pausedHints deliveryProblems deliveryStates",
].flatMap((names) => names.split(" "));
const isComputed = (key: string) =>
  key.startsWith("mailLinks.") || COMPUTED.some((group) => key.startsWith(`${group}.`));

test.each(PAGES)(
  "every text that the $page names exists, and every text of its own is named",
  ({ page, en }) => {
    const sources = sourcesIn(...SHARED, page);
    const own = [...textsOf(en).keys()].map(baseOf);
    const bases = new Set([...own, ...[...textsOf(sharedEn).keys()].map(baseOf)]);
    const called = sources.flatMap((text) =>
      [...text.matchAll(/\b(?:t|textOf|translate)\(\s*"([^"]+)"/g)].map(([, key = ""]) => key),
    );
    expect(called.length).toBeGreaterThan(30);
    expect(called.filter((key) => !bases.has(key))).toEqual([]);
    const named = namesIn(sources);
    expect(own.filter((key) => !named.has(key) && !isComputed(key))).toEqual([]);
  },
);

test("the login page names none of the texts that later pages load", () => {
  const first = [
    "pages/login.tsx",
    "router.tsx",
    "provider-buttons.tsx",
    "login-answer.tsx",
    "provider-login.ts",
    "next-page.ts",
  ];
  const sources = first.map((name) => readFileSync(join(WEB, "portal", name), "utf8"));
  const groups = new Set(
    [...namesIn([...sources, ...sourcesIn(...SHARED)])].map((key) => key.split(".")[0] ?? ""),
  );
  expect(groups).toContain("login");
  expect(Object.keys(accountEn).filter((group) => groups.has(group) || group in loginEn)).toEqual([]);
});

test("every shared text is named by a page", () => {
  const named = namesIn(sourcesIn(...SHARED, "portal", "console"));
  const keys = [...textsOf(sharedEn).keys()].map(baseOf);
  expect(keys.filter((key) => !named.has(key) && !isComputed(key))).toEqual([]);
});

function namesIn(sources: string[]): Set<string> {
  return new Set(
    sources.flatMap((text) => [...text.matchAll(/"((?:[\w-]+\.)+[\w-]+)"/g)].map(([, key = ""]) => key)),
  );
}

test("every action of the audit log has words of its own, and no other one has", () => {
  const { actions, actionGroups } = consoleEn;
  const named = Object.entries(actions).map(([group, texts]) => [group, Object.keys(texts).sort()]);
  expect(named).toEqual(Object.entries(AUDIT_ACTIONS).map(([group, names]) => [group, [...names].sort()]));
  expect(Object.keys(actionGroups)).toEqual(Object.keys(AUDIT_ACTIONS));
});

test("every permission of Gatehouse has a sentence and stands in the docs, and no other one has", () => {
  const names = [...BUILT_IN_PERMISSIONS].sort();
  expect(Object.keys(consoleEn.permissionTexts).sort()).toEqual(names);
  const docs = readFileSync(join(WEB, "..", "docs", "access.md"), "utf8");
  const section = /## Built-in permissions\n([\s\S]*?)\n## /.exec(docs)?.[1] ?? "";
  const explained = [...section.matchAll(/^- (`[^:]+:[^`]+`(?:, `[^`]+`)*):/gm)].flatMap(([, list = ""]) =>
    list.replaceAll("`", "").split(", "),
  );
  expect(explained.sort()).toEqual(names);
  const dangers = Object.keys(consoleEn.permissionDangers);
  expect(dangers.filter((name) => name !== "*" && !names.some((one) => one === name))).toEqual([]);
  const groups = names.map((name) => name.split(":")[0]).filter((group) => group !== "roles");
  expect(Object.keys(consoleEn.permissionGroups)).toEqual(expect.arrayContaining(groups));
});

test("every code that has a text of its own is one of the API's or of the browser's", () => {
  const ours =
    /^(offline|other|wait|tries|unavailable|wrong_password|cancelled|held|passkey_\w+|origin_not_allowed)$/;
  const codes = Object.keys(sharedEn.errors).map(baseOf);
  expect(codes.filter((code) => !isErrorCode(code) && !ours.test(code))).toEqual([]);
});
