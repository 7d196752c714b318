import { expect, onTestFinished, test, vi } from "vitest";
import { chooseLanguage, hasText, languages, startTexts, textOf, withTexts } from "./text.ts";

interface Page {
  kept: Map<string, string>;
  documentElement: { lang: string; dir: string };
}

/** A page whose document names languages in files. */
function openPage(
  wished: string[],
  files: Record<string, { dir: "ltr" | "rtl"; texts?: object }> = {},
): Page {
  onTestFinished(() => vi.unstubAllGlobals());
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
  vi.stubGlobal("navigator", { languages: wished });
  const documentElement = { lang: "", dir: "" };
  const links = Object.entries(files).map(([hreflang, { dir }]) => ({
    hreflang,
    dir,
    title: `Name of ${hreflang}`,
    href: `https://gate.example/${hreflang}.json`,
  }));
  vi.stubGlobal("document", { documentElement, querySelectorAll: () => links });
  vi.stubGlobal("fetch", async (url: string) => {
    const texts = files[url.slice("https://gate.example/".length, -".json".length)]?.texts;
    return texts === undefined ? Response.json({}, { status: 404 }) : Response.json(texts);
  });
  return { kept, documentElement };
}

const SKIP = { en: { tools: { skip: "Skip to the content" } }, de: { tools: { skip: "Zum Inhalt" } } };

test("a chosen language is kept at once, and of two choices the last one is shown, whichever is loaded first", async () => {
  const { kept, documentElement } = openPage(["en"]);
  const german = Promise.withResolvers<object>();
  const texts = { en: Promise.resolve(SKIP.en), de: german.promise };
  await startTexts((language) => texts[language]);

  const slow = chooseLanguage("de");
  expect([...kept.values()]).toEqual(["de"]);
  await chooseLanguage("en");
  german.resolve(SKIP.de);
  await slow;
  expect([[...kept.values()], documentElement.lang, textOf("tools.skip")]).toEqual([
    ["en"],
    "en",
    "Skip to the content",
  ]);

  await chooseLanguage("de");
  expect([documentElement.lang, textOf("tools.skip")]).toEqual(["de", "Zum Inhalt"]);
  await chooseLanguage("en");
  expect(documentElement.lang).toBe("en");
});

test("a language in a file is listed, guessed from a more exact wish, and sets the direction", async () => {
  const tools = { skip: "إلى المحتوى", key: "مفتاح {{name}}" };
  const arabic = { dir: "rtl", texts: { tools } } as const;
  const { documentElement } = openPage(["ar-EG", "en"], { ar: arabic });
  await startTexts(async (language) => SKIP[language]);
  expect(languages()).toEqual([
    ["en", "English"],
    ["de", "Deutsch"],
    ["ar", "Name of ar"],
  ]);
  expect([documentElement, textOf("tools.skip")]).toEqual([{ lang: "ar", dir: "rtl" }, "إلى المحتوى"]);
  // What stands in a sentence has a direction of its own.
  expect(textOf("tools.key", { name: "a=\u2069" })).toBe("مفتاح \u2068a=\u2069");
  await chooseLanguage("de");
  expect([documentElement, textOf("tools.skip")]).toEqual([{ lang: "de", dir: "ltr" }, "Zum Inhalt"]);
});

test("a number chooses its plural form, values stay as they are, and a later part of the texts keeps the former", async () => {
  const left = {
    left_zero: "keine",
    left_one: "{{count}} Zeichen",
    left_other: "{{count}} Zeichen von {{max}}",
  };
  openPage(["de"]);
  await startTexts(async () => ({ problems: { query: "Zu kurz" }, left }));
  await withTexts(
    async () => ({ problems: { emailAscii: "Nur ASCII" } }),
    async () => ({}),
  )();
  expect([textOf("problems.query"), textOf("problems.emailAscii")]).toEqual(["Zu kurz", "Nur ASCII"]);
  const shown = (count: number | string) => textOf("left.left", { count, max: "{{count}} $& <b>" });
  expect([0, 1, 2].map(shown)).toEqual(["keine", "1 Zeichen", "2 Zeichen von {{count}} $& <b>"]);
  // A number that is written already has no form.
  expect(shown("2")).toBe("left.left");
  expect(["problems", "problems.constructor.name", "problems.none"].map(hasText)).toEqual([
    false,
    false,
    false,
  ]);
});

test("an operator's English goes before the one in the scripts", async () => {
  openPage(["en-GB"], { en: { dir: "ltr", texts: { tools: { skip: "Straight to it" } } } });
  await startTexts(async (language) => SKIP[language]);
  expect([languages()[0], textOf("tools.skip")]).toEqual([["en", "Name of en"], "Straight to it"]);
});

test("a page whose file of texts is gone, such as during a change, is shown in English", async () => {
  const { documentElement } = openPage(["fr"], { fr: { dir: "ltr" } });
  await startTexts(async (language) => SKIP[language]);
  expect([documentElement.lang, textOf("tools.skip")]).toEqual(["en", "Skip to the content"]);
});
