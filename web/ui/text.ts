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

interface Texts {
  readonly [key: string]: string | Texts;
}

/** What the page uses so far, and the languages in which it has it. */
const loaded = new Map<LoadTexts, Set<Language>>();
const textsOf = new Map<Language, Texts>();
const watchers = new Set<() => void>();
let present: Language = "en";

/** The stored choice, else the browser's first language that exists here. */
const preferredLanguage = (): Language =>
  languageFor([localStorage.getItem(STORED) ?? "", ...navigator.languages]) ?? "en";

/** The first language that exists here; of `pt-BR`, also `pt` (RFC 4647 §3.4). */
export function languageFor(tags: readonly string[]): Language | undefined {
  const known = new Map(languages().map(([tag]) => [tag.toLowerCase(), tag]));
  const wished = tags.flatMap((tag) => {
    const parts = tag.toLowerCase().split("-");
    return parts.map((_, index) => parts.slice(0, parts.length - index).join("-"));
  });
  return known.get(wished.find((tag) => known.has(tag)) ?? "");
}

export async function startTexts(load: LoadTexts): Promise<void> {
  loaded.clear();
  textsOf.clear();
  present = preferredLanguage();
  try {
    await addTexts(load);
  } catch (error) {
    if (present === "en") throw error;
    present = "en";
    await addTexts(load);
  }
  showLanguage(present);
}

/** From left to right, a sentence stays as it is written. @see Unicode UAX 9 §2.4. */
const isolated = (text: string) => (document.documentElement.dir === "rtl" ? `\u2068${text}\u2069` : text);

/** Texts that the next page needs beside the present ones. */
async function addTexts(load: LoadTexts): Promise<void> {
  if (!loaded.has(load)) loaded.set(load, new Set());
  await loadAll(present);
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
  present = language;
  for (const changed of watchers) changed();
}

async function loadAll(language: Language): Promise<void> {
  const file = filesOfTexts().get(language);
  if (file === undefined) return loadFromScripts(language as InScripts);
  if (textsOf.has(language)) return;
  const answer = await fetch(file.href, { signal: AbortSignal.timeout(FILE_TIMEOUT_MS) });
  if (!answer.ok) throw new Error(`the texts of ${language} were answered with ${answer.status}`);
  textsOf.set(language, await answer.json());
}

async function loadFromScripts(language: InScripts): Promise<void> {
  const missing = [...loaded].filter(([, languages]) => !languages.has(language));
  await Promise.all(
    missing.map(async ([load, languages]) => {
      const texts = (await load(language)) as Texts;
      textsOf.set(language, merged(textsOf.get(language) ?? {}, texts));
      languages.add(language);
    }),
  );
}

function merged(former: Texts, added: Texts): Texts {
  const groups = Object.entries(added).map(([key, value]) => {
    const before = former[key];
    const areGroups = typeof before === "object" && typeof value === "object";
    return [key, areGroups ? merged(before, value) : value] as const;
  });
  return { ...former, ...Object.fromEntries(groups) };
}

function subscribe(changed: () => void): () => void {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

/** The present language; a change renders again. */
export function useLanguage(): Language {
  return useSyncExternalStore(subscribe, () => present);
}

export type Values = Readonly<Record<string, string | number>>;

/**
 * The text of a key in the present language; of an unknown one, the key. A number as `count` chooses the plural form.
 * @param key dotted: `login.title`.
 */
export function textOf(key: string, values: Values = {}): string {
  const { count } = values;
  const forms =
    typeof count === "number"
      ? [...(count === 0 ? ["_zero"] : []), `_${new Intl.PluralRules(present).select(count)}`, "_other"]
      : [];
  const text = [...forms, ""].map((form) => found(key + form)).find((one) => typeof one === "string") ?? key;
  // React escapes. Somebody's text must not turn the sentence around it.
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) =>
    isolated(String(values[name] ?? "").replaceAll(DIRECTIONS, "")),
  );
}

/** All texts below a key of the present language. */
export const textsBelow = <Group extends object>(key: string): Group => found(key) as Group;

export const hasText = (key: string): boolean => typeof found(key) === "string";

function found(key: string): string | Texts | undefined {
  return key
    .split(".")
    .reduce<string | Texts | undefined>(
      (tree, part) => (typeof tree === "object" && Object.hasOwn(tree, part) ? tree[part] : undefined),
      textsOf.get(present),
    );
}

/** Dotted keys of a tree of texts; plurals (`one`, `other`) are one key. */
export type KeysOf<Texts> = {
  [K in keyof Texts & string]: Texts[K] extends string ? PluralBase<K> : `${K}.${KeysOf<Texts[K]>}`;
}[keyof Texts & string];
type PluralBase<K extends string> = K extends `${infer Base}_one` | `${infer Base}_other` ? Base : K;
