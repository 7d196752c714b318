import { expect, onTestFinished, test, vi } from "vitest";
import { chooseLanguage, type Language, startTexts, textOf } from "./text.ts";

test("a chosen language is kept at once, and of two choices the last one is shown, whichever is loaded first", async () => {
  onTestFinished(() => vi.unstubAllGlobals());
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
  vi.stubGlobal("navigator", { languages: ["en"] });
  const documentElement = { lang: "" };
  vi.stubGlobal("document", { documentElement });
  const german = Promise.withResolvers<object>();
  const texts = { en: Promise.resolve({ tools: { skip: "Skip to the content" } }), de: german.promise };
  await startTexts((language: Language) => texts[language]);

  const slow = chooseLanguage("de");
  expect([...kept.values()]).toEqual(["de"]);
  await chooseLanguage("en");
  german.resolve({ tools: { skip: "Zum Inhalt" } });
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
