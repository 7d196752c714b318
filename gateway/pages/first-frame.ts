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
  const known = new Map(languages.map((language) => [language.tag, language]));
  const documents = new Map<string, Encoded>();
  return ({ url, headers }) => {
    const wished = acceptedLanguages(headers["accept-language"] ?? "").flatMap(lookupTags);
    const { tag, dir, texts } = known.get(wished.find((tag) => known.has(tag)) ?? "en") ?? ENGLISH;
    const [page = ""] = url.slice(path.length + 1).split("?", 1);
    const key = path === "/account" ? HEADINGS.get(page) : undefined;
    const name = `${tag} ${key}`;
    const encoded = documents.get(name) ?? encodedText(frameOf(titleIn(texts.portal, key), tag, dir), HTML);
    documents.set(name, encoded);
    return encoded;
  };

  function frameOf(heading: string | undefined, tag: string, dir: string): string {
    const main =
      heading === undefined
        ? ""
        : `<main class="alone"><div class="lead"><h1>${escapeHtml(heading)}</h1></div></main>`;
    const frame = `<header class="bar"><a class="brand" href="${path}">${mark}<span>${escapeHtml(brand.name)}</span></a></header>${main}`;
    return document
      .replace('<html lang="en"', () => `<html lang="${tag}" dir="${dir}"`)
      .replace("<title>", () => (heading === undefined ? "<title>" : `<title>${escapeHtml(heading)} – `))
      .replace('<div id="app">', () => `<div id="app">${frame}`);
  }
}

const HTML = "text/html; charset=utf-8";
/** Where the texts of the pages are not built. */
const ENGLISH = { tag: "en", dir: "ltr", texts: { portal: {} } } as const;

function titleIn(portal: Texts, key: string | undefined): string | undefined {
  const page = key === undefined ? undefined : portal[key];
  return typeof page === "object" && typeof page.title === "string" ? page.title : undefined;
}
