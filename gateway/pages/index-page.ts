import { createHash } from "node:crypto";
import { escapeHtml } from "#kit/values/escape-html.ts";
import type { Brand } from "./brand.ts";

export interface PageLink {
  name: string;
  /** A path of this gateway, or an address with `http:` or `https:`. */
  url: string;
}

const OWN_LINKS: Readonly<Record<string, PageLink & { text: string }>> = {
  "/account": { name: "Your account", url: "/account/login", text: "Log in, register, passkeys, sessions." },
  "/console": { name: "Console", url: "/console", text: "For support, auditors and administrators." },
};

const STYLE =
  ":root{color-scheme:light dark}" +
  "body{margin:0 auto;padding:12vh 1.5rem 3rem;max-width:34rem;font:1rem/1.6 system-ui,sans-serif;" +
  "color:light-dark(#1c1b19,#eceae5);background:light-dark(#faf9f7,#151614)}" +
  "h1{margin:0 0 .25rem;font-size:1.75rem;line-height:1.2;letter-spacing:-.02em}" +
  "p{margin:0 0 2rem;color:light-dark(#5f5b55,#a5a299)}ul{margin:0;padding:0;list-style:none}" +
  "li{border-top:1px solid light-dark(#e4e0d9,#31332f)}" +
  "a{display:block;padding:.9rem 0;color:light-dark(#0b6655,#5cc5ab);font-weight:600;text-decoration:none}" +
  "a:hover{text-decoration:underline}a:focus-visible{outline:2px solid;outline-offset:2px}" +
  "footer{display:flex;flex-wrap:wrap;gap:0 1.25rem;margin-top:2rem;font-size:.875rem}" +
  "small{display:block;color:light-dark(#5f5b55,#a5a299);font-size:.875rem;font-weight:400}";

const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

export const INDEX_HEADERS = {
  "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
} as const;

/** What a browser gets at `/`. @param paths of the pages that this gateway serves. */
export function indexPage(paths: readonly string[], links: readonly PageLink[], brand: Brand): string {
  const rows = [
    ...paths.flatMap((path) => OWN_LINKS[path] ?? []),
    { name: "API", url: "/docs", text: "Every call, to read and to try." },
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
  return page("en", escapeHtml(brand.name), "The front door of this API.", listOf(rows) + end);
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
export function missingPage(language: keyof typeof MISSING): string {
  const [title, text, home] = MISSING[language];
  return page(language, title, text, listOf([`<li><a href="/">${home}</a></li>`]));
}

const listOf = (rows: readonly string[]) => `<ul>\n${rows.join("\n")}\n</ul>`;

function page(language: string, title: string, text: string, content: string): string {
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${text}</p>
${content}
</main>
</body>
</html>
`;
}
