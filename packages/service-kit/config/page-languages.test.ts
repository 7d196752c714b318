import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { type BuiltInLanguages, PageLanguages } from "./page-languages.ts";

const BUILT_IN: BuiltInLanguages = {
  en: {
    name: "English",
    isInScripts: true,
    ui: { errors: { wait_one: "Wait {{count}} second.", wait_other: "Wait {{count}} seconds." } },
    portal: { login: { title: "Log in", provider: "Continue with {{provider}}" } },
    console: { actions: { login: { "auth.register": "Register" } } },
  },
  pt: { name: "Português", portal: { login: { title: "Entrar" } } },
};

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-languages-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

function languagesWith(files: Record<string, object | string>): PageLanguages {
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  return new PageLanguages(BUILT_IN, folder);
}

test("a text that a language lacks is that of the built-in one, of the less exact one, of English", () => {
  const languages = languagesWith({
    "pt-BR.json": { name: "Português (Brasil)", portal: { login: { provider: "Seguir com {{provider}}" } } },
    "en.json": { name: "English", console: { actions: { login: { "auth.register": "Sign up" } } } },
  });
  expect(languages.problems).toEqual([]);
  expect(languages.language("pt-BR")).toEqual({
    isInScripts: false,
    tag: "pt-BR",
    name: "Português (Brasil)",
    dir: "ltr",
    texts: {
      ui: {
        errors: {
          wait_one: "Wait {{count}} second.",
          wait_many: "Wait {{count}} seconds.",
          wait_other: "Wait {{count}} seconds.",
        },
      },
      portal: { login: { title: "Entrar", provider: "Seguir com {{provider}}" } },
      gateway: {},
      console: { actions: { login: { "auth.register": "Sign up" } } },
    },
  });
  // English as it is built in is in the scripts; with other texts it is a file.
  const inFiles = ({ all }: PageLanguages) =>
    all.filter(({ isInScripts }) => !isInScripts).map(({ tag }) => tag);
  expect(inFiles(languages)).toEqual(["en", "pt", "pt-BR"]);
  expect(inFiles(new PageLanguages(BUILT_IN))).toEqual(["pt"]);
  expect(languages.missing("pt-BR")).toEqual([
    "ui.errors.wait_one",
    "ui.errors.wait_many",
    "ui.errors.wait_other",
    "console.actions.login.auth.register",
  ]);
});

test("a language has its own plural forms and direction, which its file may name", () => {
  const languages = languagesWith({
    "ar.json": { name: "العربية", ui: { errors: { wait_two: "ثانيتان", wait_other: "{{count}} ثانية" } } },
    "ja.json": { name: "日本語", ui: { errors: { wait_other: "{{count}}秒" } } },
    "az.json": { name: "آذربایجان", dir: "rtl" },
  });
  expect(languages.problems).toEqual([]);
  const { dir, texts } = languages.language("ar");
  const general = "{{count}} ثانية";
  const forms = ["zero", "one", "few", "many", "other"].map((form) => [`wait_${form}`, general]);
  expect([dir, texts.ui]).toEqual(["rtl", { errors: { ...Object.fromEntries(forms), wait_two: "ثانيتان" } }]);
  expect(languages.language("ja").texts.ui).toEqual({ errors: { wait_other: "{{count}}秒" } });
  expect(languages.missing("ja")).not.toContain("ui.errors.wait_other");
  expect(languages.language("az").dir).toBe("rtl");
});

const TITLE = { name: "Italiano", portal: { login: { title: "Accedi" } } };

test.each<[string, object | string, string]>([
  ["it_IT.json", TITLE, "it_IT.json is no language: name it as it-IT.json"],
  ["readme.txt", "", "readme.txt is no language: name it as en or pt-BR.json"],
  ["it.json", "{", "it.json is no JSON: "],
  ["it.json", { portal: {} }, "it.json has at name: "],
  ["it.json", { name: "It\u202eaj" }, "it.json has at name: must be what the language calls itself"],
  ["it.json", { ...TITLE, dir: "up" }, "it.json has at dir: "],
  ["it.json", { ...TITLE, portl: {} }, "it.json has at its top: "],
  ["it.json", { ...TITLE, ui: { errors: [] } }, "it.json has at ui.errors: "],
  [
    "it.json",
    { name: "Italiano", portal: { login: { tittle: "Accedi" } } },
    "it.json has the unknown text portal.login.tittle: did you mean portal.login.title?",
  ],
  [
    "it.json",
    { name: "Italiano", portal: { login: { provider: "Continua" } } },
    "it.json lacks {{provider}} in portal.login.provider",
  ],
  [
    "it.json",
    { name: "Italiano", portal: { login: { title: "Accedi {{name}}" } } },
    "it.json has the unknown placeholder {{name}} in portal.login.title",
  ],
  [
    "it.json",
    { name: "Italiano", portal: { login: { title: "{{- provider}}" } } },
    "it.json has a {{ or $t( in portal.login.title",
  ],
  [
    "it.json",
    { name: "Italiano", portal: { login: { title: "$t(login.provider)" } } },
    "it.json has a {{ or $t( in portal.login.title",
  ],
  ["it.json", { name: "Italiano", portal: { login: { title: " " } } }, "it.json has nothing in portal.login"],
  ["it.json", { name: "Italiano", portal: { login: { title: "a\nb" } } }, "it.json has a control character"],
  ["it.json", { name: "Italiano", portal: { login: { title: "a".repeat(2_001) } } }, "it.json has more than"],
  ["it.json", `"${"a".repeat(600_000)}"`, "it.json has more than 524288 bytes"],
])("%s with %j is refused: %s", (name, content, problem) => {
  const { problems, added } = languagesWith({ [name]: content });
  expect(problems.join("\n")).toContain(problem);
  expect(added).toEqual([]);
});

test("a folder that cannot be read is named, and so is what lies in it instead of a file", () => {
  expect(new PageLanguages(BUILT_IN, join(folder, "gone")).problems).toEqual([
    "the folder cannot be read (ENOENT)",
  ]);
  mkdirSync(join(folder, "it.json"));
  expect(new PageLanguages(BUILT_IN, folder).problems).toEqual(["it.json cannot be read (EISDIR)"]);
});

test("a form for one number need not name it", () => {
  const one = {
    name: "Italiano",
    ui: { errors: { wait_one: "Aspetti un secondo.", wait_other: "{{count}} s" } },
  };
  expect(languagesWith({ "it.json": one }).problems).toEqual([]);
});
