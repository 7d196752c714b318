import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { languageTag } from "#kit/values/locale.ts";
import { MAILS, PHRASES } from "./mail.ts";

const LAYOUT = "layout.html";
export const FOOTER = "footer.txt";
export const fileOf = (name: string) => `${name}.txt`;
const PHRASES_FILE = "phrases.txt";

const MAX_FILE_CHARACTERS = 65_536;
const MAX_SUBJECT_CHARACTERS = 200;
/** Breaks a header line. */
export const CONTROL_CHARACTER = /[\p{Cc}\p{Zl}\p{Zp}]/u;
export const PLACEHOLDER = /\{\{([A-Za-z]+)\}\}/;

/** By file, and lines of `phrases.txt` by name. */
export interface LanguageTexts {
  files: Map<string, string>;
  phrases: Map<string, string>;
}

/** Files of a folder of mails: `layout.html`, and a folder for each language. */
export class TemplateFiles {
  /** By BCP 47 tag. */
  readonly languages = new Map<string, LanguageTexts>();
  layout = "";
  /** What makes the folder unusable. */
  readonly problems: string[] = [];
  /** Texts of no mail that this version has, which are not read. */
  readonly unread: string[] = [];

  /** Later folders go before earlier ones, file by file and phrase by phrase. */
  constructor(...folders: readonly string[]) {
    for (const folder of folders) this.#readFolder(folder);
    this.problems.push(...layoutProblems(this.layout));
  }

  #readFolder(folder: string): void {
    const { names, problem } = listed(folder);
    if (problem !== undefined) this.problems.push(`the folder ${problem}`);
    for (const name of names) {
      const path = join(folder, name);
      if (isFolder(path)) this.#readLanguage(path, name);
      else if (name === LAYOUT) this.layout = this.#read(path, name) ?? this.layout;
      else if (name.endsWith(".txt"))
        this.problems.push(`${name} lies beside the languages: put it into en/`);
    }
  }

  #readLanguage(folder: string, language: string): void {
    if (languageTag(language) !== language) {
      const tag = languageTag(language.replaceAll("_", "-")) ?? "en or pt-BR";
      this.problems.push(`${language}/ is no language: name it as ${tag}`);
      return;
    }
    const texts = this.languages.get(language) ?? { files: new Map(), phrases: new Map() };
    this.languages.set(language, texts);
    const { names, problem } = listed(folder);
    if (problem !== undefined) this.problems.push(`${language}/ ${problem}`);
    for (const name of names.filter((name) => name.endsWith(".txt"))) {
      const known = placeholdersOf(name);
      const file = `${language}/${name}`;
      if (known === undefined) this.unread.push(file);
      const text = known && this.#read(join(folder, name), file);
      if (text === undefined) continue;
      if (name === PHRASES_FILE) this.#addPhrases(texts, text, file);
      else {
        this.problems.push(...textProblems(name, text, known ?? []).map((problem) => `${file} ${problem}`));
        texts.files.set(name, text);
      }
    }
  }

  /** A phrase a line: `name: text`. */
  #addPhrases({ phrases }: LanguageTexts, text: string, file: string): void {
    for (const line of text.split("\n").filter((line) => line.trim() !== "")) {
      const [, name = "", phrase = ""] = /^([a-z-]+): (.+)$/.exec(line.trim()) ?? [];
      const known = Object.hasOwn(PHRASES, name) ? PHRASES[name as keyof typeof PHRASES] : undefined;
      if (known === undefined)
        this.problems.push(`${file} has a line that is no known phrase: ${name || line.slice(0, 40)}`);
      else this.problems.push(...placeholderProblems(phrase, known).map((problem) => `${file} ${problem}`));
      phrases.set(name, phrase);
    }
  }

  #read(path: string, file: string): string | undefined {
    const { text, problem } = readText(path);
    if (problem !== undefined) this.problems.push(`${file} ${problem}`);
    return text;
  }
}

function placeholdersOf(file: string): readonly string[] | undefined {
  if (file === FOOTER || file === PHRASES_FILE) return [];
  const name = file.replace(/\.txt$/, "");
  return Object.hasOwn(MAILS, name) ? MAILS[name as keyof typeof MAILS] : undefined;
}

function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    // What is wrong with it is said when it is read.
    return true;
  }
}

/** Without hidden names, which Kubernetes has beside those of a volume. */
function listed(folder: string): { names: string[]; problem?: string } {
  try {
    return {
      names: readdirSync(folder)
        .filter((name) => !name.startsWith("."))
        .sort(),
    };
  } catch (error) {
    return {
      names: [],
      problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})`,
    };
  }
}

function readText(path: string): { text: string; problem?: never } | { problem: string; text?: never } {
  let text: string;
  try {
    text = readFileSync(path, "utf8").replaceAll("\r\n", "\n").trim();
  } catch (error) {
    return { problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})` };
  }
  if (text === "") return { problem: "is empty" };
  if (text.length > MAX_FILE_CHARACTERS)
    return { problem: `has more than ${MAX_FILE_CHARACTERS} characters` };
  return { text };
}

export function subjectAndBody(text: string): [subject: string, body: string] {
  const [, subject = "", body = ""] = /^([^\n]+)\n\s*\n([\s\S]+)$/.exec(text) ?? [];
  return [subject.trim(), body];
}

function textProblems(file: string, text: string, placeholders: readonly string[]): string[] {
  const problems = placeholderProblems(text, placeholders);
  if (file === FOOTER) return problems;
  const subject = subjectProblem(text);
  // Without it, the mail is of no use.
  const isLinkMissing = placeholders.includes("link") && !text.includes("{{link}}");
  return [...problems, ...subject, ...(isLinkMissing ? ["has no {{link}}"] : [])];
}

function subjectProblem(text: string): string[] {
  const [subject] = subjectAndBody(text);
  if (subject === "") return ["does not begin with a subject and an empty line"];
  if (CONTROL_CHARACTER.test(subject)) return ["has a subject of more than one line"];
  if (subject.length <= MAX_SUBJECT_CHARACTERS) return [];
  return [`has a subject with more than ${MAX_SUBJECT_CHARACTERS} characters`];
}

function layoutProblems(layout: string): string[] {
  const known = ["language", "subject", "content", "footer", "style", "brand"];
  const problems = placeholderProblems(layout, known).map((problem) => `${LAYOUT} ${problem}`);
  return layout.includes("{{content}}") ? problems : [...problems, `${LAYOUT} has no {{content}}`];
}

function placeholderProblems(text: string, known: readonly string[]): string[] {
  const pieces = text.split(PLACEHOLDER);
  const unknown = pieces.filter((piece, index) => index % 2 === 1 && !known.includes(piece));
  const isMalformed = pieces.some((piece, index) => index % 2 === 0 && piece.includes("{{"));
  return [
    ...unknown.map((name) => `has the unknown placeholder {{${name}}}`),
    ...(isMalformed ? ["has a {{ that does not begin a placeholder"] : []),
  ];
}
