import { createHash } from "node:crypto";
import type { ColorPair } from "#kit/config/brand-config.ts";
import type { PageLanguage } from "#kit/config/page-languages.ts";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { type Encoded, encodedText } from "../edge/answers/cacheable.ts";
import type { BrandLogo } from "./brand-logo.ts";
import type { WebPages } from "./web-pages.ts";

/** What people see of the operator. */
export interface Brand {
  name: string;
  /** Declarations of custom properties. Empty: none. */
  style: string;
  /** Behind everything, of light and dark pages. Undefined: as in the documents. */
  paper?: ColorPair | undefined;
  logo?: BrandLogo | undefined;
  /** Addresses. */
  support?: string | undefined;
  privacy?: string | undefined;
  terms?: string | undefined;
  /** Where the mails are that this system sends, on a developer's machine. */
  mailbox?: string | undefined;
}

/** Relations of links, which the pages look for. @see HTML §4.6.7, RFC 6903 §2. */
const RELATIONS = {
  support: "help",
  privacy: "privacy-policy",
  terms: "terms-of-service",
  mailbox: "mailbox",
} as const;

/** With the brand's style sheet and the further languages, which are files like any other. */
export function brandedPages(
  { path, document, files }: WebPages,
  brand: Brand,
  languages: readonly PageLanguage[] = [],
): WebPages {
  const added = new Map<string, Encoded>();
  const addressOf = (name: string, content: string | Buffer, mediaType: string) => {
    const digest = createHash("sha256").update(content).digest("hex").slice(0, 16);
    const address = `${path}/assets/${name.replace("*", digest)}`;
    added.set(address, encodedText(content, mediaType));
    return escapeHtml(address);
  };
  const inFiles = languages.filter(({ isInScripts }) => !isInScripts);
  const links = inFiles.map(({ tag, name, dir, texts }) => {
    const own = { ...texts.ui, ...(path === "/account" ? texts.portal : texts.console) };
    const address = addressOf(`${tag}-*.json`, JSON.stringify(own), "application/json; charset=utf-8");
    return `<link rel="language" hreflang="${tag}" dir="${dir}" title="${escapeHtml(name)}" href="${address}">`;
  });
  // Behind the sheet of the pages.
  if (brand.style !== "")
    links.push(
      `<link rel="stylesheet" href="${addressOf("brand-*.css", `:root{${brand.style}}`, "text/css; charset=utf-8")}">`,
    );
  if (brand.logo !== undefined)
    links.push(`<link rel="logo" href="${addressOf("logo-*", brand.logo.content, brand.logo.mediaType)}">`);
  return { path, document: brandedDocument(document, brand, links), files: new Map([...files, ...added]) };
}

const APPLICATION = /<meta name="application-name"[^<>]*>/;
/** What a browser's own bar takes up. */
const THEME = /(<meta name="theme-color" media="\(prefers-color-scheme: (light|dark)\)" content=")[^"]*/g;
const TITLE = /<title>[^<]*<\/title>/;

/** The brand is data there: the name is the application's and the title, and addresses are links of the head. */
function brandedDocument(html: string, brand: Brand, further: readonly string[]): string {
  const links = Object.entries(RELATIONS).flatMap(([kind, relation]) => {
    const url = brand[kind as keyof typeof RELATIONS];
    return url === undefined ? [] : [`<link rel="${relation}" href="${escapeHtml(url)}">`];
  });
  links.push(...further);
  // As functions: a `$` in what is inserted has no meaning.
  return html
    .replace(APPLICATION, () => `<meta name="application-name" content="${escapeHtml(brand.name)}">`)
    .replace(THEME, (same, start, scheme) =>
      brand.paper === undefined ? same : start + escapeHtml(brand.paper[scheme === "light" ? 0 : 1]),
    )
    .replace(TITLE, () => `<title>${escapeHtml(brand.name)}</title>`)
    .replace("</head>", () => `${links.join("")}</head>`);
}
