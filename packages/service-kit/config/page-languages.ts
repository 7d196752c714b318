import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { languageTag, lookupTags } from "../values/locale.ts";
import { nearestNames } from "../values/nearest-names.ts";
import { ConfigError } from "./config.ts";

/** Texts by key. A text for a number has a key for each plural form: `left_one`, `left_other`. */
export interface Texts {
  [key: string]: string | Texts;
}

/** `ui` is what the portal and the console share. `gateway` is of the pages that the gateway writes itself. */
const PARTS = ["ui", "portal", "console", "gateway"] as const;
type Part = (typeof PARTS)[number];

const textsSchema: z.ZodType<Texts> = z.lazy(() => z.record(z.string(), z.union([z.string(), textsSchema])));
const NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,40}$/u;
const languageSchema = z.strictObject({
  name: z.string().regex(NAME, "must be what the language calls itself, in 1 to 40 characters"),
  dir: z.enum(["ltr", "rtl"]).optional(),
  ui: textsSchema.optional(),
  portal: textsSchema.optional(),
  console: textsSchema.optional(),
  gateway: textsSchema.optional(),
});
type LanguageFile = z.output<typeof languageSchema>;

/** What `web/build.ts` writes: every language of our own, of which the scripts of the pages have some in them. */
export type BuiltInLanguages = Readonly<Record<string, LanguageFile & { isInScripts?: true }>>;

/** Complete: what a language lacks is in the next best one. */
export interface PageLanguage {
  tag: string;
  name: string;
  dir: "ltr" | "rtl";
  texts: Record<Part, Texts>;
  /** As it is here: no page loads it. */
  isInScripts: boolean;
}

const BUILT = resolve(import.meta.dirname, "..", "..", "..", "web", "dist", "languages.json");
const LAST_LANGUAGE = "en";
const MAX_FILES = 100;
const MAX_FILE_BYTES = 512 * 1024;
const MAX_TEXT_CHARACTERS = 2_000;
const BREAKS_LINES = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const PLURAL_FORM = /_(zero|one|two|few|many|other)$/;
const MAX_SHOWN = 20;

/** @throws {ConfigError} if the pages are not built. */
export function builtInLanguages(file = BUILT): BuiltInLanguages {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as BuiltInLanguages;
  } catch (error) {
    throw new ConfigError(
      `the texts of the pages are not built (npm run build:web): ${(error as Error).message}`,
    );
  }
}

/** The languages of the pages, with those of an operator's folder of files `<tag>.json`. */
export class PageLanguages {
  /** What makes the folder unusable, by file. */
  readonly problems: string[] = [];
  readonly #builtIn: BuiltInLanguages;
  readonly #added = new Map<string, LanguageFile>();
  readonly #flat = new Map<LanguageFile, ReadonlyMap<string, string>>();

  constructor(builtIn: BuiltInLanguages, folder?: string) {
    this.#builtIn = builtIn;
    for (const name of folder === undefined ? [] : this.#listed(folder)) {
      try {
        this.#added.set(...this.#read(join(folder ?? "", name), name));
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        this.problems.push(...error.message.split("\n").map((problem) => `${name} ${problem}`));
      }
    }
  }

  get builtIn(): string[] {
    return Object.keys(this.#builtIn);
  }

  /** Tags of the folder's files. */
  get added(): string[] {
    return [...this.#added.keys()];
  }

  get all(): PageLanguage[] {
    const tags = new Set([...Object.keys(this.#builtIn), ...this.#added.keys()]);
    return [...tags].map((tag) => this.language(tag));
  }

  language(tag: string): PageLanguage {
    const { name, dir } = this.#added.get(tag) ?? this.#builtIn[tag] ?? { name: ownNameOf(tag) };
    const chain = this.#textsFor(...lookupTags(tag), LAST_LANGUAGE);
    const forms = pluralForms(tag);
    const textsOf = (part: Part) => completed(this.#english(part), chain, forms, `${part}.`);
    const texts = {
      ui: textsOf("ui"),
      portal: textsOf("portal"),
      console: textsOf("console"),
      gateway: textsOf("gateway"),
    };
    const isInScripts = !this.#added.has(tag) && this.#builtIn[tag]?.isInScripts === true;
    return { tag, name, dir: dir ?? directionOf(tag), texts, isInScripts };
  }

  /** Keys whose text is that of another language. */
  missing(tag: string): string[] {
    const own = this.#textsFor(...lookupTags(tag));
    return [...this.#keysOf(tag).keys()].filter((key) => own.every((texts) => !texts.has(key)));
  }

  /** The texts that somebody may write in the file of a language, with their English ones. */
  #keysOf(tag: string): Map<string, string> {
    const english = this.#textsFor(LAST_LANGUAGE);
    const forms = pluralForms(tag);
    return flat(
      Object.fromEntries(
        PARTS.map((part) => [part, completed(this.#english(part), english, forms, `${part}.`)]),
      ),
    );
  }

  #english(part: Part): Texts {
    return this.#builtIn[LAST_LANGUAGE]?.[part] ?? {};
  }

  #textsFor(...tags: string[]): ReadonlyMap<string, string>[] {
    const files = tags.flatMap((tag) => [this.#added.get(tag), this.#builtIn[tag]]);
    return files.filter((file) => file !== undefined).map((file) => this.#flatTexts(file));
  }

  #flatTexts(file: LanguageFile): ReadonlyMap<string, string> {
    const texts = this.#flat.get(file) ?? textsOfFile(file);
    this.#flat.set(file, texts);
    return texts;
  }

  #listed(folder: string): string[] {
    try {
      // Without hidden names, which Kubernetes has beside those of a volume.
      const names = readdirSync(folder).filter((name) => !name.startsWith("."));
      if (names.length > MAX_FILES) this.problems.push(`the folder has more than ${MAX_FILES} files`);
      return names.slice(0, MAX_FILES).sort();
    } catch (error) {
      const { code = "unreadable" } = error as NodeJS.ErrnoException;
      this.problems.push(`the folder cannot be read (${code})`);
      return [];
    }
  }

  /** @throws {ConfigError} with a line for each problem. */
  #read(path: string, name: string): [tag: string, LanguageFile] {
    const tag = /^(.+)\.json$/.exec(name)?.[1] ?? "";
    const right = languageTag(tag.replaceAll("_", "-")) ?? "en or pt-BR";
    if (languageTag(tag) !== tag) throw new ConfigError(`is no language: name it as ${right}.json`);
    const { data, error } = languageSchema.safeParse(jsonOf(path));
    if (error !== undefined)
      throw new ConfigError(
        error.issues
          .map(({ path, message }) => `has at ${path.join(".") || "its top"}: ${message}`)
          .join("\n"),
      );
    const problems = textProblems(textsOfFile(data), this.#keysOf(tag));
    if (problems.length > MAX_SHOWN)
      problems.splice(MAX_SHOWN, problems.length, `has ${problems.length - MAX_SHOWN} further problems`);
    if (problems.length > 0) throw new ConfigError(problems.join("\n"));
    return [tag, data];
  }
}

function jsonOf(path: string): unknown {
  try {
    if (statSync(path).size > MAX_FILE_BYTES) throw new ConfigError(`has more than ${MAX_FILE_BYTES} bytes`);
    return JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) throw new ConfigError(`is no JSON: ${error.message.split("\n")[0]}`);
    const { code } = error as NodeJS.ErrnoException;
    throw code === undefined ? error : new ConfigError(`cannot be read (${code})`);
  }
}

const textsOfFile = ({ ui = {}, portal = {}, console = {}, gateway = {} }: LanguageFile) =>
  flat({ ui, portal, console, gateway });

/** By dotted key. */
function flat(texts: Texts, path = "", into = new Map<string, string>()): Map<string, string> {
  for (const [key, value] of Object.entries(texts)) {
    if (typeof value === "string") into.set(path + key, value);
    else flat(value, `${path}${key}.`, into);
  }
  return into;
}

/** @returns texts in the tree of English. Those of an earlier language go first; a form that it lacks has its most general one. */
function completed(
  english: Texts,
  languages: readonly ReadonlyMap<string, string>[],
  forms: readonly string[],
  path: string,
): Texts {
  const found = (key: string, general = key) => {
    for (const texts of languages) {
      const text = texts.get(path + key) ?? texts.get(path + general);
      if (text !== undefined) return text;
    }
    return "";
  };
  const texts: Texts = {};
  for (const [key, value] of Object.entries(english)) {
    const base = key.replace(PLURAL_FORM, "");
    const general = `${base}_other`;
    if (typeof value !== "string") texts[key] = completed(value, languages, forms, `${path}${key}.`);
    else if (base === key || !(general in english)) texts[key] = found(key);
    // English has "one" of each text that has "other". "zero" is a text of its own, whatever the language.
    else if (key.endsWith("_zero")) texts[key] = found(key, general);
    else if (key === general)
      for (const form of forms) texts[`${base}_${form}`] = found(`${base}_${form}`, general);
  }
  return texts;
}

function pluralForms(tag: string): string[] {
  return new Intl.PluralRules(tag).resolvedOptions().pluralCategories;
}

function directionOf(tag: string): "ltr" | "rtl" {
  // Of Node since 24, without types yet. @see ECMA-402, Intl Locale Info.
  const locale = new Intl.Locale(tag) as Intl.Locale & { getTextInfo(): { direction?: "ltr" | "rtl" } };
  return locale.getTextInfo().direction ?? "ltr";
}

function ownNameOf(tag: string): string {
  return new Intl.DisplayNames(tag, { type: "language" }).of(tag) ?? tag;
}

function textProblems(texts: ReadonlyMap<string, string>, known: ReadonlyMap<string, string>): string[] {
  const general = (key: string) => known.get(key.replace(PLURAL_FORM, "_other"));
  return [...texts].flatMap(([key, text]) => {
    const english = known.get(key);
    if (english === undefined) return [`has the unknown text ${key}${meantBy(key, known)}`];
    if (text.trim() === "") return [`has nothing in ${key}: leave it out`];
    if (text.length > MAX_TEXT_CHARACTERS)
      return [`has more than ${MAX_TEXT_CHARACTERS} characters in ${key}`];
    if (BREAKS_LINES.test(text)) return [`has a control character in ${key}`];
    return placeholderProblems(key, text, english, PLURAL_FORM.test(key) ? (general(key) ?? "") : "");
  });
}

/** @param general of a number, which a form that is for one number need not name. */
function placeholderProblems(key: string, text: string, english: string, general: string): string[] {
  const [used, wanted] = [placeholdersOf(text), placeholdersOf(`${english}${general}`)];
  const isNeeded = (name: string) => general === "" || name !== "count";
  const missing = [...wanted].filter((name) => !used.has(name) && isNeeded(name));
  const unknown = [...used].filter((name) => !wanted.has(name));
  const rest = text.replaceAll(/\{\{\w+\}\}/g, "");
  return [
    ...missing.map((name) => `lacks {{${name}}} in ${key}`),
    ...unknown.map((name) => `has the unknown placeholder {{${name}}} in ${key}`),
    // Both mean something to the pages.
    ...(/\{\{|\$t\(/.test(rest) ? [`has a {{ or $t( in ${key} that begins no placeholder`] : []),
  ];
}

const placeholdersOf = (text: string) =>
  new Set([...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name = ""]) => name));

function meantBy(key: string, known: ReadonlyMap<string, string>): string {
  const [nearest] = nearestNames(key, [...known.keys()]);
  return nearest === undefined ? "" : `: did you mean ${nearest}?`;
}
