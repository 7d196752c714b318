import { mayPassDownstream } from "#routes-file/routes-file.ts";
import { STANDARD_HEADERS } from "../edge/answers/standard-headers.ts";
import { setsOwnCookie } from "../edge/request/cookies.ts";
import type { ProxyRoute, ProxyTarget } from "../routing/proxy-table.ts";
import { publicPath, publicValue } from "./public-references.ts";
import { allowedName, connectionNames, remembered, text } from "./upstream-headers.ts";

/** What concerns this answer alone. */
const ORDINARY = new Set([
  "accept-patch",
  "accept-post",
  "accept-ranges",
  "age",
  "allow",
  "cache-control",
  "content-digest",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-md5",
  "content-range",
  "content-security-policy",
  "content-security-policy-report-only",
  "content-type",
  "date",
  "deprecation",
  "digest",
  "etag",
  "expires",
  "last-modified",
  "link",
  "location",
  "pragma",
  "preference-applied",
  "referrer-policy",
  "refresh",
  "repr-digest",
  "retry-after",
  "server-timing",
  "set-cookie",
  "signature",
  "signature-input",
  "sunset",
  "vary",
  "want-content-digest",
  "want-repr-digest",
  "warning",
  "www-authenticate",
]);
/** Names of applications, and the WebSocket handshake. */
const ORDINARY_FAMILY = /^(?:x-|sec-websocket-)/;

const passableDown = remembered(
  (name) => (ORDINARY.has(name) || ORDINARY_FAMILY.test(name)) && mayPassDownstream(name),
);

/** Types that a browser shows as a document that may run scripts: HTML, XHTML, SVG, other XML, and parts of these. */
const ACTIVE_TYPE = /html|xml|svg|xsl|multipart/i;
/** Browsers ask for a password in the origin's name, and send it to the whole origin. */
const ASKS_PERSON = /(?:^|,)\s*(?:basic|digest|ntlm|negotiate)\b/i;
const NO_SNIFFING = "x-content-type-options";
const { "content-security-policy": POLICY, "referrer-policy": REFERRER_POLICY } = STANDARD_HEADERS;

/** Names and values are in turn. */
export function addDownstreamHeaders(
  headers: string[],
  rawHeaders: readonly (string | Buffer)[],
  target: ProxyTarget,
): void {
  const { pages, allowedResponseHeaderSet: allowed } = target.route;
  const named = connectionNames(rawHeaders);
  const cookies = new ConfinedCookies(target);
  let isActive = false;
  let hasPolicy = false;
  let hasReferrerPolicy = false;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = text(rawHeaders[index] ?? "");
    const name = passableDown(written) || allowedName(written, allowed);
    if (name === "" || name === NO_SNIFFING || named?.has(name)) continue;
    const value = text(rawHeaders[index + 1] ?? "");
    if (name === "www-authenticate" && ASKS_PERSON.test(value)) continue;
    if (name === "set-cookie") {
      cookies.add(headers, value);
      continue;
    }
    headers.push(name, publicValue(name, value, target));
    if (name === "content-type") isActive ||= ACTIVE_TYPE.test(value);
    else if (name === "content-security-policy") hasPolicy = true;
    else if (name === "referrer-policy") hasReferrerPolicy = true;
  }
  headers.push(NO_SNIFFING, STANDARD_HEADERS[NO_SNIFFING]);
  if (pages === "trusted") return;
  if (!hasPolicy) headers.push("content-security-policy", POLICY);
  // Beside the upstream's own policy: a browser obeys both.
  if (isActive) headers.push("content-security-policy", "sandbox");
  if (!hasReferrerPolicy) headers.push("referrer-policy", REFERRER_POLICY);
}

/** A browser's room for the cookies of a host is shared with the gateway's own. */
const MAX_COOKIES = 20;
const MAX_COOKIE_CHARACTERS = 8_192;
/** Browsers ignore attributes of more than 1024. */
const MAX_PATH_CHARACTERS = 1_000;

/** The cookies of one answer. Further ones are dropped. */
class ConfinedCookies {
  readonly #target: ProxyTarget;
  #count = 0;
  #characters = 0;

  constructor(target: ProxyTarget) {
    this.#target = target;
  }

  add(headers: string[], value: string): void {
    if (setsOwnCookie(value)) return;
    this.#count += 1;
    this.#characters += value.length;
    if (this.#count > MAX_COOKIES || this.#characters > MAX_COOKIE_CHARACTERS) return;
    headers.push("set-cookie", this.#target.route.cookies === "origin" ? value : this.#confined(value));
  }

  /** Removes `Domain`, and sets the `Path` of the route. */
  #confined(value: string): string {
    let path = this.#target.version + this.#target.route.prefix;
    const kept = value.split(";").filter((part, index) => {
      if (index === 0) return true;
      const [name = "", ...written] = part.split("=");
      const attribute = name.trim().toLowerCase();
      if (attribute === "path") path = this.#pathBelow(written.join("=").trim());
      return attribute !== "path" && attribute !== "domain";
    });
    return [...kept, ` Path=${path}`].join(";");
  }

  /** @param written as the upstream sees its paths. */
  #pathBelow(written: string): string {
    const { route, version } = this.#target;
    const { prefix, stripPrefix } = route;
    if (written.length > MAX_PATH_CHARACTERS || !written.startsWith("/") || written === "/")
      return version + prefix;
    if (stripPrefix) return publicPath(written, this.#target);
    const isBelow = written === prefix || written.startsWith(`${prefix}/`);
    return version + (isBelow ? written : prefix);
  }
}

/** Fields that change how the message is read (RFC 9110 §6.5.1). */
const NOT_IN_TRAILERS =
  /^(?:content-|set-cookie$|www-authenticate$|cache-control$|vary$|location$|refresh$|referrer-policy$)/;

/** @param rawTrailers names and values in turn. */
export function passableTrailers(
  rawTrailers: readonly (string | Buffer)[],
  { allowedResponseHeaderSet: allowed }: Pick<ProxyRoute, "allowedResponseHeaderSet">,
): [string, string][] {
  const passed: [string, string][] = [];
  for (let index = 0; index < rawTrailers.length; index += 2) {
    const written = text(rawTrailers[index] ?? "");
    const name = passableDown(written) || allowedName(written, allowed);
    if (name !== "" && !NOT_IN_TRAILERS.test(name)) passed.push([name, text(rawTrailers[index + 1] ?? "")]);
  }
  return passed;
}

/** The links of a 103 (RFC 8297, RFC 8288 §3) that can be passed. */
export function passableHints(rawHeaders: readonly (string | Buffer)[]): string[] {
  const hints: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (text(rawHeaders[index] ?? "").toLowerCase() !== "link") continue;
    hints.push(...linksOf(text(rawHeaders[index + 1] ?? "")).filter(isHint));
  }
  return hints;
}

function linksOf(list: string): string[] {
  const links: string[] = [];
  for (const part of list.split(",")) {
    if (part.trimStart().startsWith("<")) links.push(part.trim());
    // A comma within a link.
    else links.push(`${links.pop() ?? ""},${part}`);
  }
  return links;
}

const HINT_TARGET = /^<[\x21-\x3d\x3f-\x7e]*$/;
const HINT_PARAMETER = /^[!#-:<>-~]+(?:=(?:"[!#-:<-~]*"|[!#-:<-~]*))?$/;

/** As `writeEarlyHints` of Node takes it: no quoted text with spaces. */
function isHint(link: string): boolean {
  const end = link.indexOf(">");
  const [between, ...parameters] = link.slice(end + 1).split(";");
  const isTarget = end !== -1 && HINT_TARGET.test(link.slice(0, end)) && between?.trim() === "";
  return isTarget && parameters.every((parameter) => HINT_PARAMETER.test(parameter.trim()));
}
