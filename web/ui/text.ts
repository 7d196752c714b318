import i18next from "i18next";
import { useSyncExternalStore } from "react";

export const LANGUAGES = { en: "English", de: "Deutsch" } as const;
export type Language = keyof typeof LANGUAGES;

const STORED = "gatehouse.language";
/** Embeddings, overrides and isolates. @see Unicode UAX 9. */
const DIRECTIONS = /[\u202A-\u202E\u2066-\u2069]/g;

/** Each language is a file of its own, of which a page loads one. */
export type LoadTexts = (language: Language) => Promise<object>;

/** What the page uses so far, and the languages in which it has it. */
const loaded = new Map<LoadTexts, Set<Language>>();

/** The stored choice, else the browser's first language that exists here. */
function preferredLanguage(): Language {
  const wished = [localStorage.getItem(STORED) ?? "", ...navigator.languages];
  const known = wished.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => tag in LANGUAGES);
  return (known as Language | undefined) ?? "en";
}

export async function startTexts(load: LoadTexts): Promise<void> {
  const language = preferredLanguage();
  await i18next.init({
    lng: language,
    // React escapes. Somebody's text must not turn the sentence around it.
    interpolation: { escape: (value: string) => value.replaceAll(DIRECTIONS, "") },
    resources: { [language]: { translation: {} } },
  });
  await addTexts(load);
  document.documentElement.lang = language;
}

/** Texts that the next page needs beside the present ones. */
async function addTexts(load: LoadTexts): Promise<void> {
  if (!loaded.has(load)) loaded.set(load, new Set());
  await loadAll(i18next.language as Language);
}

/** A page that needs further texts, with them. */
export const withTexts =
  <Module>(texts: LoadTexts, load: () => Promise<Module>): (() => Promise<Module>) =>
  async () => {
    const [module] = await Promise.all([load(), addTexts(texts)]);
    return module;
  };

export async function chooseLanguage(language: Language): Promise<void> {
  // At once: whoever leaves the page before the texts are here has chosen, too.
  localStorage.setItem(STORED, language);
  // A page may have asked for more in between.
  for (let count = 0; count !== loaded.size; ) {
    count = loaded.size;
    await loadAll(language);
  }
  // Another one was chosen while these texts were on the way.
  if (localStorage.getItem(STORED) !== language) return;
  document.documentElement.lang = language;
  await i18next.changeLanguage(language);
}

async function loadAll(language: Language): Promise<void> {
  const missing = [...loaded].filter(([, languages]) => !languages.has(language));
  await Promise.all(
    missing.map(async ([load, languages]) => {
      i18next.addResourceBundle(language, "translation", await load(language), true);
      languages.add(language);
    }),
  );
}

function subscribe(changed: () => void): () => void {
  i18next.on("languageChanged", changed);
  return () => i18next.off("languageChanged", changed);
}

/** The present language; a change renders again. */
export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, () => i18next.language as Language);
}

export type Values = Readonly<Record<string, string | number>>;

/** The text of a key in the present language. @param key dotted: `login.title`. */
export function textOf(key: string, values: Values = {}): string {
  return i18next.t(key, values);
}

/** All texts below a key of the present language. */
export const textsBelow = <Texts extends object>(key: string): Texts =>
  i18next.getResource(i18next.language, "translation", key) as Texts;

export const hasText = (key: string): boolean => i18next.exists(key);

/** Dotted keys of a tree of texts; plurals (`one`, `other`) are one key. */
export type KeysOf<Texts> = {
  [K in keyof Texts & string]: Texts[K] extends string ? PluralBase<K> : `${K}.${KeysOf<Texts[K]>}`;
}[keyof Texts & string];
type PluralBase<K extends string> = K extends `${infer Base}_one` | `${infer Base}_other` ? Base : K;
