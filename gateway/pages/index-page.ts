import { createHash } from "node:crypto";
import { escapeHtml } from "#kit/values/escape-html.ts";
import type { Brand } from "./brand.ts";
import { COLORS, declarationsOf } from "./brand-style.ts";
import { type ShownLanguage, textIn } from "./first-frame.ts";

export interface PageLink {
  name: string;
  /** A path of this gateway, or an address with `http:` or `https:`. */
  url: string;
}

/** Keys of texts. */
const OWN_LINKS: Readonly<Record<string, { name: string; url: string; text: string }>> = {
  "/account": { name: "portal.account.profile", url: "/account/login", text: "gateway.account" },
  "/console": { name: "console.console.title", url: "/console", text: "gateway.console" },
};

/** Custom properties of the pages that have no style sheet of their own. */
export const propertiesOf = ({ style }: Brand): string =>
  `:root{color-scheme:light dark;--font:system-ui,sans-serif;--mono:ui-monospace,Menlo,Consolas,monospace;--radius:8px;` +
  `${declarationsOf(COLORS)}}${style === "" ? "" : `:root{${style}}`}`;

/** Within the page, whose policy allows that already. The name stands beside it. */
export function logoImage({ logo }: Brand): string {
  if (logo === undefined) return "";
  return `<img src="data:${escapeHtml(logo.mediaType.replace("; ", ";"))};base64,${logo.content.toString("base64")}" alt="">`;
}

const STYLE =
  "body{margin:0 auto;padding:12vh 1.5rem 3rem;max-width:34rem;font:1rem/1.6 var(--font);" +
  "color:var(--ink);background:var(--paper)}" +
  "img{display:block;height:2.5rem;max-width:100%;margin:0 0 1rem;object-fit:contain;object-position:left}[dir=rtl] img{object-position:right}" +
  "h1{margin:0 0 .25rem;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em}" +
  "p{margin:0 0 2rem;color:var(--muted)}ul{margin:0;padding:0;list-style:none}" +
  "li{border-top:1px solid var(--line)}" +
  "a{display:block;padding:.9rem 0;color:var(--accent);font-weight:600;text-decoration:none}" +
  "a:hover{text-decoration:underline}a:focus-visible{outline:2px solid;outline-offset:2px}" +
  "footer{display:flex;flex-wrap:wrap;gap:0 1.25rem;margin-top:2rem;font-size:.875rem}" +
  "small{display:block;color:var(--muted);font-size:.875rem;font-weight:400}";

const styleOf = (brand: Brand) => propertiesOf(brand) + STYLE;

/** The one style of these pages is known by its hash. */
export function indexHeaders(brand: Brand) {
  const hash = createHash("sha256").update(styleOf(brand)).digest("base64");
  return {
    "content-security-policy": `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

/** What a browser gets at `/`. @param paths of the pages that this gateway serves. */
export function indexPage(
  paths: readonly string[],
  links: readonly PageLink[],
  brand: Brand,
  language: ShownLanguage,
): string {
  const t = (key: string) => textIn(language.texts, key) ?? "";
  const own = paths.flatMap((path) => OWN_LINKS[path] ?? []);
  const rows = [
    ...own.map(({ name, url, text }) => ({ name: t(name), url, text: t(text) })),
    { name: "API", url: "/docs", text: t("gateway.api") },
    { name: t("gateway.document"), url: "/openapi.json", text: t("gateway.documentText") },
    ...links.map(({ name, url }) => ({
      name: (url === brand.mailbox && t("gateway.mailbox")) || name,
      url,
      text: url,
    })),
  ].map(
    ({ name, url, text }) =>
      `<li><a href="${escapeHtml(url)}">${escapeHtml(name)}<small>${escapeHtml(text)}</small></a></li>`,
  );
  const foot = (["support", "privacy", "terms"] as const).flatMap((kind) => {
    const url = brand[kind];
    return url === undefined ? [] : [`<a href="${escapeHtml(url)}">${escapeHtml(t(`ui.tools.${kind}`))}</a>`];
  });
  const end = foot.length === 0 ? "" : `\n<footer>${foot.join("")}</footer>`;
  const content = `<h1>${escapeHtml(brand.name)}</h1>\n<p>${escapeHtml(t("gateway.lead"))}</p>\n${listOf(rows)}${end}`;
  return page(language, brand.name, content, brand);
}

/** What a browser gets at an unknown path. */
export function missingPage(brand: Brand, language: ShownLanguage): string {
  const t = (key: string) => textIn(language.texts, key) ?? "";
  const [title, text, home] = [t("ui.states.missing"), t("ui.states.missingText"), t("gateway.home")];
  const content = `<h1>${escapeHtml(title)}</h1>\n<p>${escapeHtml(text)}</p>\n${listOf([`<li><a href="/">${escapeHtml(home)}</a></li>`])}`;
  return page(language, title, content, brand);
}

const listOf = (rows: readonly string[]) => `<ul>\n${rows.join("\n")}\n</ul>`;

function page({ tag, dir }: ShownLanguage, title: string, content: string, brand: Brand): string {
  return `<!doctype html>
<html lang="${tag}" dir="${dir}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<style>${styleOf(brand)}</style>
</head>
<body>
<main>
${logoImage(brand)}${content}
</main>
</body>
</html>
`;
}
