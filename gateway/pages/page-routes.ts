import type { FastifyReply, FastifyRequest } from "fastify";
import type { PageLanguage } from "#kit/config/page-languages.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type Encoded, encodedText, sendEncoded } from "../edge/answers/cacheable.ts";
import { HTTP_STATUS } from "../edge/answers/http-errors.ts";
import { acceptsHtml } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";
import { type Brand, brandedPages } from "./brand.ts";
import { firstFrames, HTML, languageChoice, type ShownLanguage } from "./first-frame.ts";
import { indexHeaders, indexPage, missingPage, type PageLink } from "./index-page.ts";
import type { WebPages } from "./web-pages.ts";

const policy: RoutePolicy = { auth: "public", limitClass: "page" };

/** Browsers never ask for a name with a hash again. */
const IMMUTABLE = "public, max-age=31536000, immutable";
/** They ask each time, by its ETag. */
const REVALIDATED = "no-cache";

/** Scripts and styles are files of this origin; nothing that is written into a page becomes one. */
const DOCUMENT_HEADERS = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  vary: "Accept-Language",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
} as const;

/** If somebody opens an image as a document, it can do nothing. */
const IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

export interface PagesDeps {
  /** None with `WEB=off`. */
  webPages: readonly WebPages[];
  /** Where browsers are sent that open a page on another host. Undefined: no other one. */
  publicOrigin?: string | undefined;
  /** In its place: on other hosts there are no files of the pages either. */
  pagesOrigin?: string | undefined;
  /** Further ones for the page at `/`. */
  indexLinks: readonly PageLink[];
  brand: Brand;
  pageLanguages: readonly PageLanguage[];
}

/** Outside of versions, and not in the API document: nothing here has rights of its own. */
export function registerPageRoutes(app: GatewayApp, deps: PagesDeps): void {
  const { webPages, publicOrigin, pagesOrigin, indexLinks, brand, pageLanguages } = deps;
  if (webPages.length === 0) return;
  const home = pagesOrigin ?? publicOrigin;
  const homeHost = home && new URL(home).host;
  const isElsewhere = ({ headers }: FastifyRequest) => homeHost !== undefined && headers.host !== homeHost;
  const headersOfIndex = indexHeaders(brand);
  const paths = webPages.map(({ path }) => path);
  const languageFor = languageChoice(pageLanguages);
  const indexes = new Map<string, Encoded>();
  const indexFor = (language: ShownLanguage) => {
    const index =
      indexes.get(language.tag) ?? encodedText(indexPage(paths, indexLinks, brand, language), HTML);
    indexes.set(language.tag, index);
    return index;
  };
  app.get("/", { config: policy }, async (request, reply) => {
    reply.header("vary", "Accept, Accept-Language");
    if (!acceptsHtml(request)) throw new DomainError("not_found");
    if (isElsewhere(request)) return reply.redirect(`${home}/`);
    return sendEncoded(request, reply.headers(headersOfIndex), indexFor(languageFor(request)), REVALIDATED);
  });
  for (const pages of webPages) {
    const { path } = pages;
    const branded = brandedPages(pages, brand, pageLanguages);
    const { files } = branded;
    const documentFor = firstFrames(branded, brand, pageLanguages);
    const page = async (request: FastifyRequest, reply: FastifyReply) => {
      if (isElsewhere(request)) return reply.redirect(`${home}${request.url}`);
      return sendEncoded(request, reply.headers(DOCUMENT_HEADERS), documentFor(request), REVALIDATED);
    };
    app.get(path, { config: policy }, page);
    app.get(`${path}/*`, { config: policy }, page);
    app.get(`${path}/assets/*`, { config: policy }, async (request, reply) => {
      const [name = ""] = (request.raw.url ?? "").split("?", 1);
      const file = files.get(name);
      if (file === undefined || (pagesOrigin !== undefined && isElsewhere(request)))
        throw new DomainError("not_found");
      if (file.identity.mediaType.startsWith("image/")) reply.header("content-security-policy", IMAGE_POLICY);
      return sendEncoded(
        request,
        reply.header("cross-origin-resource-policy", "same-origin"),
        file,
        IMMUTABLE,
      );
    });
  }
}

/** For password managers, which are programs. @see https://www.w3.org/TR/change-password-url/ */
const CHANGE_PASSWORD = "/.well-known/change-password";
/** Pages of the portal that are looked for. */
const SHORT_CUTS: ReadonlyMap<string, string> = new Map([
  ["/login", "/account/login"],
  ["/register", "/account/register"],
  [CHANGE_PASSWORD, "/account/security"],
]);

/** Answers a browser at an unknown path, which no upstream has. Undefined: it is a call like any other. */
export function answerMissingPage({ webPages, publicOrigin, pagesOrigin, brand, pageLanguages }: PagesDeps) {
  const languageFor = languageChoice(pageLanguages);
  const headersOfIndex = indexHeaders(brand);
  return (path: string, request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined => {
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (webPages.length === 0 || !isRead) return undefined;
    if (path !== CHANGE_PASSWORD && !acceptsHtml(request)) return undefined;
    reply.headers({ "cache-control": "no-store", vary: "Accept, Accept-Language" });
    const shortCut = SHORT_CUTS.get(path);
    if (shortCut !== undefined) return reply.redirect(`${pagesOrigin ?? publicOrigin ?? ""}${shortCut}`);
    return reply
      .code(HTTP_STATUS.not_found)
      .headers(headersOfIndex)
      .type(HTML)
      .send(missingPage(brand, languageFor(request)));
  };
}
