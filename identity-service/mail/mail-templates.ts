import { join } from "node:path";
import type { Accent } from "#kit/config/brand-config.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { lookupTags, timeZoneName } from "#kit/values/locale.ts";
import type { Reader } from "../users/reader-fields.ts";
import {
  MAILS,
  type MailContent,
  type MailName,
  type MailValue,
  PHRASES,
  type Phrase,
  TIMES,
} from "./mail.ts";
import {
  CONTROL_CHARACTER,
  FOOTER,
  fileOf,
  type LanguageTexts,
  PLACEHOLDER,
  subjectAndBody,
  TemplateFiles,
} from "./template-files.ts";

export const BUILT_IN_MAIL_TEMPLATES = join(import.meta.dirname, "mail-templates");

/** Complete, so that each mail has a text. */
const LAST_LANGUAGE = "en";

/** What people see of the operator. */
export interface MailBrand {
  name: string;
  /** HTML of the head, behind the layout's own. */
  style: string;
  support: string | undefined;
  /** Where its image is. */
  logo?: string | undefined;
}

const OWN_BRAND: MailBrand = { name: "Gatehouse", style: "", support: undefined };

/** The button has the colour for light pages in dark mails, too: its text stands on it. */
export function mailBrandOf(
  name: string,
  accent: Accent | undefined,
  support: string | undefined,
  logo?: string,
): MailBrand {
  if (accent === undefined) return { ...OWN_BRAND, name, support, logo };
  const {
    accent: [light, dark],
    "on-accent": [text],
  } = accent;
  const rules = [
    `a { color: ${light}; }`,
    `@media (prefers-color-scheme: dark) { a { color: ${dark}; } }`,
    `.button a { background: ${light}; color: ${text}; }`,
  ];
  return { name, style: `\n<style>\n${rules.join("\n")}\n</style>`, support, logo };
}

/** The name stands beside it. */
const logoOf = ({ logo }: MailBrand): string =>
  logo === undefined
    ? ""
    : `<img src="${escapeHtml(logo)}" alt="" height="32" style="vertical-align: middle"> `;

/** Names the placeholder, never the value. */
export class MailRenderError extends Error {
  override readonly name = "MailRenderError";
}

export type MailValues = Readonly<Record<string, MailValue>>;

/**
 * Each mail is written once in each language, as plain text after its subject and an empty line. The layout makes HTML
 * of it. What a language lacks is sent in the next of: the less exact tag, the default language, English.
 */
export class MailTemplates {
  /** If there are any, nothing can be rendered. */
  readonly problems: readonly string[];
  /** Files of no mail that this version has. */
  readonly unread: readonly string[];
  readonly #files: TemplateFiles;
  readonly #defaultLanguage: string;

  /** @param folder goes before our own, file by file. */
  constructor(folder?: string, defaultLanguage = LAST_LANGUAGE) {
    this.#files = new TemplateFiles(BUILT_IN_MAIL_TEMPLATES, ...(folder === undefined ? [] : [folder]));
    this.#defaultLanguage = defaultLanguage;
    this.problems = this.#files.problems;
    this.unread = this.#files.unread;
  }

  get languages(): string[] {
    return [...this.#files.languages.keys()].sort();
  }

  /** Files, and lines of `phrases.txt`, that a language does not have, each with the language that people get. */
  missing(language: string): { text: string; shownIn: string }[] {
    const own = this.#files.languages.get(language);
    const parts = { files: [...Object.keys(MAILS).map(fileOf), FOOTER], phrases: Object.keys(PHRASES) };
    return (["files", "phrases"] as const).flatMap((kind) =>
      parts[kind]
        .filter((key) => own?.[kind].has(key) !== true)
        .map((key) => ({
          text: kind === "files" ? key : `${key} of phrases.txt`,
          shownIn: this.#find(language, kind, key).language,
        })),
    );
  }

  has(language: string): boolean {
    return lookupTags(language).some((tag) => this.#files.languages.has(tag));
  }

  /** Escapes values in the HTML part. @throws {MailRenderError} for a missing or multi-line value. */
  render(
    name: MailName,
    values: MailValues,
    { language: wanted, timeZone }: Reader = { language: null, timeZone: null },
    brand = OWN_BRAND,
  ): MailContent {
    const template = this.#find(wanted, "files", fileOf(name));
    const { language } = template;
    // Everything in a mail has one language, of which the reader's may be a more exact kind.
    const locale = wanted !== null && lookupTags(wanted).includes(language) ? wanted : language;
    const writer = { locale, timeZone: timeZoneName(timeZone ?? "") ?? "UTC" };
    const insert = (placeholder: string) => this.#valueOf(values, placeholder, writer);
    const [title, body] = subjectAndBody(template.text);
    const subject = fillIn(title, insert);
    const { support } = brand;
    const help = support === undefined ? "" : `\n\n${this.#find(locale, "phrases", "help").text}`;
    const footer = this.#find(locale, "files", FOOTER).text + help;
    const insertBelow = () => lineOf({ link: support ?? "" }, "link");
    const parts: Record<string, string> = {
      language,
      subject: escapeHtml(subject),
      content: htmlOf(body, insert),
      footer: htmlOf(footer, insertBelow),
      style: brand.style,
      brand: logoOf(brand) + escapeHtml(brand.name),
    };
    return {
      subject,
      text: `${fillIn(`${title}\n\n${body}`, insert)}\n\n${fillIn(footer, insertBelow)}\n`,
      html: fillIn(this.#files.layout, (part) => parts[part] ?? ""),
    };
  }

  /** A text in the reader's language, or in the next one that has it. */
  #find(wanted: string | null, kind: keyof LanguageTexts, key: string): { text: string; language: string } {
    const chain = [...lookupTags(wanted ?? ""), ...lookupTags(this.#defaultLanguage), LAST_LANGUAGE];
    for (const language of chain) {
      const text = this.#files.languages.get(language)?.[kind].get(key);
      if (text !== undefined) return { text, language };
    }
    throw new MailRenderError(`there is no ${key} in any language`);
  }

  #valueOf(values: MailValues, placeholder: string, writer: Writer): string {
    const value = Object.hasOwn(values, placeholder) ? values[placeholder] : undefined;
    if (value === undefined || typeof value === "string") {
      const line = lineOf({ [placeholder]: value }, placeholder);
      return TIMES.has(placeholder) ? timeText(line, placeholder, writer) : line;
    }
    const items = value.map((phrase) => this.#phraseText(phrase, writer));
    return new Intl.ListFormat(writer.locale, { type: "conjunction" }).format(items);
  }

  #phraseText({ phrase, values = {} }: Phrase, writer: Writer): string {
    const { text } = this.#find(writer.locale, "phrases", phrase);
    return fillIn(text, (placeholder) => this.#valueOf(values, placeholder, writer));
  }
}

interface Writer {
  /** BCP 47. */
  locale: string;
  timeZone: string;
}

function timeText(value: string, placeholder: string, { locale, timeZone }: Writer): string {
  const time = new Date(value);
  if (Number.isNaN(time.getTime())) throw new MailRenderError(`{{${placeholder}}} is no time`);
  return new Intl.DateTimeFormat(locale, { dateStyle: "long", timeStyle: "long", timeZone }).format(time);
}

function lineOf(values: Readonly<Record<string, string | undefined>>, placeholder: string): string {
  const value = values[placeholder];
  if (value === undefined) throw new MailRenderError(`{{${placeholder}}} has no value`);
  if (CONTROL_CHARACTER.test(value)) throw new MailRenderError(`{{${placeholder}}} is more than one line`);
  return value;
}

/** Such as `Browser: {{browser}}`. */
const FACT = /^([^:{}]+?)\s?: (\{\{[A-Za-z]+\}\})$/;
/** A link on a line of its own, after the label of its button. */
const BUTTON = /^([^{}]+?)\s?:?\n\{\{link\}\}$/;

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

type Insert = (placeholder: string) => string;

/** Replaces `{{name}}`. What is inserted is not searched again. @param asText for what stands between. */
function fillIn(text: string, insert: Insert, asText = (piece: string) => piece): string {
  return text
    .split(PLACEHOLDER)
    .map((piece, index) => (index % 2 === 0 ? asText(piece) : insert(piece)))
    .join("");
}
