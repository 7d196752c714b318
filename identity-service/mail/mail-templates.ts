import { readFileSync } from "node:fs";
import { join } from "node:path";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { MAILS, type MailContent, type MailName } from "./mail.ts";

export const BUILT_IN_MAIL_TEMPLATES = join(import.meta.dirname, "mail-templates");

const PARTS = ["subject", "txt", "html"] as const;
type Part = (typeof PARTS)[number];

const PLACEHOLDER = /\{\{([A-Za-z]+)\}\}/;
const MAX_FILE_CHARACTERS = 65_536;
const MAX_SUBJECT_CHARACTERS = 200;
/** Breaks a header line. */
const CONTROL_CHARACTER = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Text and placeholders in turn. */
type Pieces = readonly string[];

export interface MailTemplates {
  /** Escapes values in the HTML part. @throws {MailRenderError} for a missing or multi-line value. */
  render(name: MailName, values: Readonly<Record<string, string>>): MailContent;
}

/** Names the placeholder, never the value. */
export class MailRenderError extends Error {
  override readonly name = "MailRenderError";
}

/** `{{name}}` placeholders. Returns all problems. */
export function loadMailTemplates(directory: string): { templates: MailTemplates; problems: string[] } {
  const texts = new Map<string, Pieces>();
  const problems: string[] = [];
  for (const [name, placeholders] of Object.entries(MAILS)) {
    for (const part of PARTS) {
      const file = `${name}.${part}`;
      const text = readText(join(directory, file), part);
      const pieces = text.content?.split(PLACEHOLDER) ?? [];
      texts.set(file, pieces);
      const found = text.problem === undefined ? problemsOf(pieces, placeholders) : [text.problem];
      problems.push(...found.map((problem) => `${file} ${problem}`));
    }
  }
  const fill = (name: MailName, part: Part, insert: (placeholder: string) => string) =>
    (texts.get(`${name}.${part}`) ?? [])
      .map((piece, index) => (index % 2 === 0 ? piece : insert(piece)))
      .join("");
  const templates: MailTemplates = {
    render(name, values) {
      const line = (placeholder: string) => lineOf(values, placeholder);
      return {
        subject: fill(name, "subject", line),
        text: fill(name, "txt", line),
        html: fill(name, "html", (placeholder) => escapeHtml(line(placeholder))),
      };
    },
  };
  return { templates, problems };
}

function readText(
  path: string,
  part: Part,
): { content: string; problem?: never } | { problem: string; content?: never } {
  let content: string;
  try {
    content = readFileSync(path, "utf8");
  } catch (error) {
    return { problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})` };
  }
  if (part === "subject") content = content.trim();
  if (content.trim() === "") return { problem: "is empty" };
  const limit = part === "subject" ? MAX_SUBJECT_CHARACTERS : MAX_FILE_CHARACTERS;
  if (content.length > limit) return { problem: `has more than ${limit} characters` };
  if (part === "subject" && CONTROL_CHARACTER.test(content)) return { problem: "is more than one line" };
  return { content };
}

function problemsOf(pieces: Pieces, placeholders: readonly string[]): string[] {
  const unknown = pieces.filter((piece, index) => index % 2 === 1 && !placeholders.includes(piece));
  const isMalformed = pieces.some((piece, index) => index % 2 === 0 && piece.includes("{{"));
  return [
    ...unknown.map((name) => `has the unknown placeholder {{${name}}}`),
    ...(isMalformed ? ["has a {{ that does not begin a placeholder"] : []),
  ];
}

function lineOf(values: Readonly<Record<string, string>>, placeholder: string): string {
  const value = Object.hasOwn(values, placeholder) ? values[placeholder] : undefined;
  if (value === undefined) throw new MailRenderError(`{{${placeholder}}} has no value`);
  if (CONTROL_CHARACTER.test(value)) throw new MailRenderError(`{{${placeholder}}} is more than one line`);
  return value;
}
