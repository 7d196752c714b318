import i18next from "i18next";
import { useSyncExternalStore } from "react";

/** Their texts are in the scripts. */
const IN_SCRIPTS = { en: "English", de: "Deutsch" } as const;
type InScripts = keyof typeof IN_SCRIPTS;
/** BCP 47. */
export type Language = string;

const STORED = "gatehouse.language";
/** Embeddings, overrides and isolates. @see Unicode UAX 9. */
const DIRECTIONS = /[\u202A-\u202E\u2066-\u2069]/g;

/** Each language is a file of its own, of which a page loads one. */
export type LoadTexts = (language: InScripts) => Promise<object>;

/** How long a file of texts may be on its way. */
const FILE_TIMEOUT_MS = 20_000;

/** Languages that the gateway names in the document, with all texts of the page in a file: further ones, and those with an operator's texts. */
const filesOfTexts = () =>
  new Map(
    [...document.querySelectorAll<HTMLLinkElement>("link[rel=language]")].map((link) => [
      link.hreflang,
      link,
    ]),
  );

/** What a person may choose, by tag, with what each calls itself. */
export function languages(): [Language, string][] {
  const inFiles = [...filesOfTexts()].map(([tag, link]): [string, string] => [tag, link.title]);
  return [...new Map<string, string>([...Object.entries(IN_SCRIPTS), ...inFiles])];
}

function showLanguage(language: Language): void {
  document.documentElement.lang = language;
  document.documentElement.dir = filesOfTexts().get(language)?.dir || "ltr";
}

/** What the page uses so far, and the languages in which it has it. */
const loaded = new Map<LoadTexts, Set<Language>>();

/** The stored choice, else the browser's first language that exists here; of `pt-BR`, also `pt` (RFC 4647 §3.4). */
function preferredLanguage(): Language {
  const known = new Map(languages().map(([tag]) => [tag.toLowerCase(), tag]));
  const wished = [localStorage.getItem(STORED) ?? "", ...navigator.languages].flatMap((tag) => {
    const parts = tag.toLowerCase().split("-");
    return parts.map((_, index) => parts.slice(0, parts.length - index).join("-"));
  });
  return known.get(wished.find((tag) => known.has(tag)) ?? "") ?? "en";
}

export async function startTexts(load: LoadTexts): Promise<void> {
  await i18next.init({
    lng: preferredLanguage(),
    // React escapes. Somebody's text must not turn the sentence around it.
    interpolation: { escape: (value: string) => isolated(value.replaceAll(DIRECTIONS, "")) },
    resources: {},
  });
  try {
    await addTexts(load);
  } catch (error) {
    if (i18next.language === "en") throw error;
    await i18next.changeLanguage("en");
    await addTexts(load);
  }
  showLanguage(i18next.language);
}

/** From left to right, a sentence stays as it is written. @see Unicode UAX 9 §2.4. */
const isolated = (text: string) => (document.documentElement.dir === "rtl" ? `\u2068${text}\u2069` : text);

/** Texts that the next page needs beside the present ones. */
async function addTexts(load: LoadTexts): Promise<void> {
  if (!loaded.has(load)) loaded.set(load, new Set());
  await loadAll(i18next.language);
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
  showLanguage(language);
  await i18next.changeLanguage(language);
}

async function loadAll(language: Language): Promise<void> {
  const file = filesOfTexts().get(language);
  if (file === undefined) return loadFromScripts(language as InScripts);
  if (i18next.hasResourceBundle(language, "translation")) return;
  const answer = await fetch(file.href, { signal: AbortSignal.timeout(FILE_TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`the texts of ${language} were answered with ${answer.status}`);
  i18next.addResourceBundle(language, "translation", await answer.json());
}

async function loadFromScripts(language: InScripts): Promise<void> {
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
  return useSyncExternalStore(subscribe, () => i18next.language);
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
