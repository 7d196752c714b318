import type { FastifyRequest } from "fastify";
import type { PageLanguage, Texts } from "#kit/config/page-languages.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { acceptedLanguages, lookupTags } from "#kit/values/locale.ts";
import { type Encoded, encodedText } from "../edge/answers/cacheable.ts";
import type { Brand } from "./brand.ts";
import type { WebPages } from "./web-pages.ts";

/** Which text of the portal is the heading, by the last part of the path. Others have none before their scripts run. */
const HEADINGS: ReadonlyMap<string, string> = new Map([
  ["login", "login"],
  ["register", "register"],
  ["forgot-password", "forgot"],
]);

const MARK =
  '<svg width="22" height="22" viewBox="0 0 22 22" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">' +
  '<path d="M3 20V10a8 8 0 0 1 16 0v10M1 20h20M8 20v-9a3 3 0 0 1 6 0v9"/></svg>';

/**
 * The document of a page with what it shows before its scripts have run: its frame, and its heading in the first language
 * of the browser that exists here. Whoever has chosen another language on the page sees it when the scripts run.
 */
export function firstFrames(
  { path, document }: WebPages,
  brand: Brand,
  languages: readonly PageLanguage[],
): (request: FastifyRequest) => Encoded {
  // Its address is escaped there.
  const [, logo] = /<link rel="logo" href="([^"]+)">/.exec(document) ?? [];
  const mark = logo === undefined ? MARK : `<img src="${logo}" alt="">`;
  const languageFor = languageChoice(languages);
  const documents = new Map<string, Encoded>();
  return (request) => {
    const { tag, dir, texts } = languageFor(request);
    const [page = ""] = request.url.slice(path.length + 1).split("?", 1);
    const key = path === "/account" ? HEADINGS.get(page) : undefined;
    const name = `${tag} ${key}`;
    const encoded =
      documents.get(name) ??
      encodedText(frameOf(key && textIn(texts, `portal.${key}.title`), { tag, dir, texts }), HTML);
    documents.set(name, encoded);
    return encoded;
  };

  function frameOf(heading: string | undefined, { tag, dir, texts }: ShownLanguage): string {
    const main =
      heading === undefined
        ? ""
        : `<main class="alone"><div class="lead"><h1>${escapeHtml(heading)}</h1></div></main>`;
    const frame = `<header class="bar"><a class="brand" href="${path}">${mark}<span>${escapeHtml(brand.name)}</span></a></header>${withoutScripts(brand, texts)}${main}`;
    return document
      .replace('<html lang="en"', () => `<html lang="${tag}" dir="${dir}"`)
      .replace("<title>", () => (heading === undefined ? "<title>" : `<title>${escapeHtml(heading)} – `))
      .replace('<div id="app">', () => `<div id="app">${frame}`);
  }
}

/** Where nothing else will come: why, and the way to the operator's support. */
function withoutScripts({ support }: Brand, texts: Texts): string {
  const t = (key: string) => escapeHtml(textIn(texts, key) ?? "");
  const link = support === undefined ? "" : `<a href="${escapeHtml(support)}">${t("ui.tools.support")}</a>`;
  const lines = `<strong>${t("gateway.scripts")}</strong><span>${t("gateway.scriptsText")}</span>${link}`;
  return `<noscript><div class="alone notice bad">${lines}</div></noscript>`;
}

export const HTML = "text/html; charset=utf-8";
/** Where the texts of the pages are not built. */
const ENGLISH: ShownLanguage = {
  tag: "en",
  dir: "ltr",
  texts: { ui: {}, portal: {}, console: {}, gateway: {} },
};

/** What a page needs of a language. */
export type ShownLanguage = Pick<PageLanguage, "tag" | "dir" | "texts">;

/** @returns the first language of the browser that exists here. */
export function languageChoice(
  languages: readonly PageLanguage[],
): (request: FastifyRequest) => ShownLanguage {
  const known = new Map(languages.map((language) => [language.tag, language]));
  return ({ headers }) => {
    const wished = acceptedLanguages(headers["accept-language"] ?? "").flatMap(lookupTags);
    return known.get(wished.find((tag) => known.has(tag)) ?? "en") ?? ENGLISH;
  };
}

/** By its dotted key. */
export function textIn(texts: Texts, key: string): string | undefined {
  const found = key
    .split(".")
    .reduce<Texts | string | undefined>(
      (tree, part) => (typeof tree === "object" ? tree[part] : undefined),
      texts,
    );
  return typeof found === "string" ? found : undefined;
}
