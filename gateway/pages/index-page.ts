import { createHash } from "node:crypto";
import { escapeHtml } from "#kit/values/escape-html.ts";
import type { Brand } from "./brand.ts";
import { COLORS, declarationsOf } from "./brand-style.ts";

export interface PageLink {
  name: string;
  /** A path of this gateway, or an address with `http:` or `https:`. */
  url: string;
}

const OWN_LINKS: Readonly<Record<string, PageLink & { text: string }>> = {
  "/account": { name: "Your account", url: "/account/login", text: "Log in, register, passkeys, sessions." },
  "/console": { name: "Console", url: "/console", text: "For support, auditors and administrators." },
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
  "img{display:block;height:2.5rem;max-width:100%;margin:0 0 1rem;object-fit:contain;object-position:left}" +
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
export function indexPage(paths: readonly string[], links: readonly PageLink[], brand: Brand): string {
  const rows = [
    ...paths.flatMap((path) => OWN_LINKS[path] ?? []),
    { name: "API", url: "/docs", text: "Every call, with an example." },
    { name: "API document", url: "/openapi.json", text: "The same as OpenAPI 3.1, for programs." },
    ...links.map((link) => ({ ...link, text: link.url })),
  ].map(
    ({ name, url, text }) =>
      `<li><a href="${escapeHtml(url)}">${escapeHtml(name)}<small>${escapeHtml(text)}</small></a></li>`,
  );
  const foot = [
    ["Support", brand.support],
    ["Privacy", brand.privacy],
    ["Terms", brand.terms],
  ].flatMap(([name, url]) => (url === undefined ? [] : [`<a href="${escapeHtml(url)}">${name}</a>`]));
  const end = foot.length === 0 ? "" : `\n<footer>${foot.join("")}</footer>`;
  const content = `<h1>${escapeHtml(brand.name)}</h1>\n<p>The front door of this API.</p>\n${listOf(rows)}${end}`;
  return page("en", brand.name, content, brand);
}

const MISSING = {
  en: ["There is no such page", "The address may be old or mistyped.", "To the start page"],
  de: [
    "Diese Seite gibt es nicht",
    "Vielleicht ist die Adresse veraltet oder falsch geschrieben.",
    "Zur Startseite",
  ],
} as const;

/** What a browser gets at an unknown path. */
export function missingPage(language: keyof typeof MISSING, brand: Brand): string {
  const [title, text, home] = MISSING[language];
  const content = `<h1>${title}</h1>\n<p>${text}</p>\n${listOf([`<li><a href="/">${home}</a></li>`])}`;
  return page(language, title, content, brand);
}

const listOf = (rows: readonly string[]) => `<ul>\n${rows.join("\n")}\n</ul>`;

function page(language: string, title: string, content: string, brand: Brand): string {
  return `<!doctype html>
<html lang="${language}">
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
