import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Accent } from "#kit/config/brand-config.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { MAILS, type MailContent, type MailName } from "./mail.ts";

export const BUILT_IN_MAIL_TEMPLATES = join(import.meta.dirname, "mail-templates");

/** The only one so far: its folder has one file for each mail. */
const LANGUAGE = "en";
const LAYOUT = "layout.html";
const FOOTER = `${LANGUAGE}/footer.txt`;
const fileOf = (name: string) => `${LANGUAGE}/${name}.txt`;

/** Below the footer. */
const HELP = "\n\nDo you need help? {{link}}";

const MAX_FILE_CHARACTERS = 65_536;
const MAX_SUBJECT_CHARACTERS = 200;
/** Breaks a header line. */
const CONTROL_CHARACTER = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** What people see of the operator. */
export interface MailBrand {
  /** HTML of the head, behind the layout's own. */
  style: string;
  support: string | undefined;
}

const OWN_BRAND: MailBrand = { style: "", support: undefined };

/** The button has the colour for light pages in dark mails, too: its text stands on it. */
export function mailBrandOf(accent: Accent | undefined, support: string | undefined): MailBrand {
  if (accent === undefined) return { ...OWN_BRAND, support };
  const {
    accent: [button],
    "on-accent": [text],
  } = accent;
  return { style: `\n<style>\n.button a { background: ${button}; color: ${text}; }\n</style>`, support };
}

/** Names the placeholder, never the value. */
export class MailRenderError extends Error {
  override readonly name = "MailRenderError";
}

/** Each mail is written once, as plain text after its subject and an empty line. The layout makes HTML of it. */
export class MailTemplates {
  /** If there are any, nothing can be rendered. */
  readonly problems: string[] = [];
  readonly #directory: string;
  readonly #texts = new Map<string, string>();

  constructor(directory: string) {
    this.#directory = directory;
    this.#read(LAYOUT, ["language", "subject", "content", "footer", "style"]);
    if (this.#texts.get(LAYOUT)?.includes("{{content}}") === false) {
      this.problems.push(`${LAYOUT} has no {{content}}`);
    }
    this.#read(FOOTER, []);
    for (const [name, placeholders] of Object.entries(MAILS)) {
      const text = this.#read(fileOf(name), placeholders);
      const problem = text === undefined ? undefined : subjectProblem(text);
      if (problem !== undefined) this.problems.push(`${fileOf(name)} ${problem}`);
    }
  }

  /** Escapes values in the HTML part. @throws {MailRenderError} for a missing or multi-line value. */
  render(name: MailName, values: Readonly<Record<string, string>>, brand = OWN_BRAND): MailContent {
    const { style, support } = brand;
    const insert = (placeholder: string) => lineOf(values, placeholder);
    const [title, body] = subjectAndBody(this.#textOf(fileOf(name)));
    const subject = fillIn(title, insert);
    const footer = this.#textOf(FOOTER) + (support === undefined ? "" : HELP);
    const insertBelow = (placeholder: string) => lineOf({ link: support ?? "" }, placeholder);
    const parts: Record<string, string> = {
      language: LANGUAGE,
      subject: escapeHtml(subject),
      content: htmlOf(body, insert),
      footer: htmlOf(footer, insertBelow),
      style,
    };
    return {
      subject,
      text: `${fillIn(`${title}\n\n${body}`, insert)}\n\n${fillIn(footer, insertBelow)}\n`,
      html: fillIn(this.#textOf(LAYOUT), (part) => parts[part] ?? ""),
    };
  }

  #read(file: string, placeholders: readonly string[]): string | undefined {
    const { text, problem } = readText(join(this.#directory, file));
    const problems = problem === undefined ? placeholderProblems(text, placeholders) : [problem];
    this.problems.push(...problems.map((found) => `${file} ${found}`));
    if (text !== undefined) this.#texts.set(file, text);
    return text;
  }

  #textOf(file: string): string {
    return this.#texts.get(file) ?? "";
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

function subjectAndBody(text: string): [subject: string, body: string] {
  const [, subject = "", body = ""] = /^([^\n]+)\n\s*\n([\s\S]+)$/.exec(text) ?? [];
  return [subject.trim(), body];
}

function subjectProblem(text: string): string | undefined {
  const [subject] = subjectAndBody(text);
  if (subject === "") return "does not begin with a subject and an empty line";
  if (CONTROL_CHARACTER.test(subject)) return "has a subject of more than one line";
  if (subject.length <= MAX_SUBJECT_CHARACTERS) return undefined;
  return `has a subject with more than ${MAX_SUBJECT_CHARACTERS} characters`;
}

function lineOf(values: Readonly<Record<string, string>>, placeholder: string): string {
  const value = Object.hasOwn(values, placeholder) ? values[placeholder] : undefined;
  if (value === undefined) throw new MailRenderError(`{{${placeholder}}} has no value`);
  if (CONTROL_CHARACTER.test(value)) throw new MailRenderError(`{{${placeholder}}} is more than one line`);
  return value;
}

/** Such as `Browser: {{browser}}`. */
const FACT = /^([^:{}]+): (\{\{[A-Za-z]+\}\})$/;
/** A link on a line of its own, after the label of its button. */
const BUTTON = /^([^{}]+?):?\n\{\{link\}\}$/;

/** Paragraphs, facts and buttons. The template says which is which; values are no more than text in them. */
function htmlOf(template: string, insert: Insert): string {
  const value = (name: string) => escapeHtml(insert(name));
  const fill = (text: string) =>
    fillIn(text, (name) => (name === "link" ? linkTo(value(name)) : value(name)), escapeHtml);

  const htmlOfBlock = (block: string): string => {
    const facts = block.split("\n").map((line) => FACT.exec(line));
    if (!facts.includes(null)) {
      const rows = facts.map((fact) => {
        const [, name = "", text = ""] = fact ?? [];
        return `<tr><th scope="row">${fill(name)}</th><td>${fill(text)}</td></tr>`;
      });
      return `<table>\n${rows.join("\n")}\n</table>`;
    }
    const label = BUTTON.exec(block)?.[1];
    if (label === undefined) return `<p>${fill(block)}</p>`;
    const button = linkTo(value("link"), escapeHtml(label));
    return `<p class="button">${button}</p>\n<p class="address">${fill("{{link}}")}</p>`;
  };

  return template
    .split(/\n{2,}/)
    .map(htmlOfBlock)
    .join("\n");
}

function linkTo(address: string, label = address): string {
  return `<a href="${address}">${label}</a>`;
}

const PLACEHOLDER = /\{\{([A-Za-z]+)\}\}/;

type Insert = (placeholder: string) => string;

/** Replaces `{{name}}`. What is inserted is not searched again. @param asText for what stands between. */
function fillIn(text: string, insert: Insert, asText = (piece: string) => piece): string {
  return text
    .split(PLACEHOLDER)
    .map((piece, index) => (index % 2 === 0 ? asText(piece) : insert(piece)))
    .join("");
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
