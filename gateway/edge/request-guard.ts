import type { IncomingMessage } from "node:http";
import { DomainError } from "#kit/values/errors.ts";
import { authorityOf, isAllowedHost, normalAuthority } from "./proofs/authority.ts";

const MAX_HEADERS = 100;
const MAX_HEADER_NAME_CHARACTERS = 256;
const MAX_URL_CHARACTERS = 8_192;
/** They end at each hop (RFC 9110 §7.6.1), also under names of older peers. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);
/** Servers pick different values of duplicates, or join them. */
const SINGLE = [
  "host",
  "authorization",
  "content-type",
  "content-length",
  "transfer-encoding",
  "origin",
  "content-encoding",
  "idempotency-key",
  "gatehouse-approval",
  "gatehouse-client",
];
const BIT = new Map(SINGLE.map((name, index) => [name, 1 << index]));
const NOT_PRINTABLE_ASCII = /[^\x21-\x7e]/;
/** Slash, backslash, dot or control character. Other servers may decode it before routing. */
const ENCODED_DELIMITER = /%(?:[01][0-9a-f]|2e|2f|5c|7f)/i;
/** An escaped `%` of an escape. */
const ESCAPED_AGAIN = /%25[0-9a-f]{2}/i;
/** Characters that normalization does not change. */
const DELIMITER_LIKE = /[;\u2044\u2215\u2216\u29f5\u29f8\u29f9\u3002\uff61]/;
const DELIMITER = /[./\\;%?#]/;
const BROKEN_ESCAPE = /%(?![0-9a-f]{2})/i;
const CONFUSING_PATH = /\\|\/\/|\.\.|\/\.(?:\/|$)/;
const VERSIONS = new Set(["1.0", "1.1"]);
const BODYLESS = new Set(["GET", "HEAD", "TRACE"]);

export type RawRequest = Pick<IncomingMessage, "method" | "url" | "httpVersion" | "rawHeaders" | "headers">;

/** How the client has reached the gateway. */
interface Reached {
  /** The target as it was sent. */
  target: string;
  scheme: string;
}

/**
 * Writes the authority that was asked for to `Host`, in its normal form.
 * @see RFC 9112 §3.2, §6.1 and §11.2, RFC 9110 §15.6.
 */
export function guardRequest(
  request: RawRequest,
  { target, scheme }: Reached,
  allowedHosts: ReadonlySet<string>,
): void {
  // The parser accepts further versions.
  if (!VERSIONS.has(request.httpVersion)) throw new DomainError("http_version_not_supported");
  guardHeaders(request.rawHeaders);
  guardFraming(request);
  guardTarget(request.url ?? "");
  // The authority of the target replaces `Host` (RFC 9112 §3.2.2).
  const asked = authorityOf(target) ?? { scheme, authority: request.headers.host ?? "" };
  const host = normalAuthority(asked.authority, scheme);
  if (asked.scheme !== scheme || !isAllowedHost(allowedHosts, host, scheme)) {
    throw new DomainError("misdirected_request");
  }
  request.headers.host = host;
}

function guardHeaders(rawHeaders: readonly string[]): void {
  if (rawHeaders.length > 2 * MAX_HEADERS) throw new DomainError("headers_too_large");
  let seen = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = rawHeaders[index] ?? "";
    if (written.length > MAX_HEADER_NAME_CHARACTERS) throw new DomainError("headers_too_large");
    const name = written.toLowerCase();
    const bit = BIT.get(name) ?? 0;
    if ((seen & bit) !== 0)
      throw new DomainError("bad_request", `The header ${name} appears more than once.`);
    seen |= bit;
    if (name === "connection") guardConnection(rawHeaders[index + 1] ?? "");
  }
  if ((seen & (BIT.get("host") ?? 0)) === 0)
    throw new DomainError("bad_request", "The header host is missing.");
}

/** A sender must not name end-to-end fields, by which this gateway may decide and which the next hop would not get. */
function guardConnection(value: string): void {
  for (const option of value.split(",")) {
    const name = option.trim().toLowerCase();
    if (name !== "" && name !== "close" && !HOP_BY_HOP.has(name))
      throw new DomainError(
        "bad_request",
        "The header connection names a field that does not end at this hop.",
      );
  }
}

function guardFraming({ method, httpVersion, headers }: RawRequest): void {
  const coding = headers["transfer-encoding"];
  const isChunked = coding !== undefined;
  if (isChunked && httpVersion === "1.0") {
    throw new DomainError("bad_request", "HTTP/1.0 has no Transfer-Encoding.");
  }
  // The parser removes the last coding only.
  if (isChunked && coding.toLowerCase() !== "chunked") throw new DomainError("not_implemented");
  const hasBody = isChunked || (headers["content-length"] ?? "0") !== "0";
  if (hasBody && BODYLESS.has(method ?? "")) {
    throw new DomainError("bad_request", `${method} takes no body.`);
  }
  // HTTP/1.0 has no expectations: RFC 9110 §10.1.1.
  if (
    httpVersion !== "1.0" &&
    headers.expect !== undefined &&
    headers.expect.toLowerCase() !== "100-continue"
  ) {
    throw new DomainError("bad_request", "Only 100-continue can be expected.");
  }
}

/**
 * An upstream could leave the prefix of its policy if it decodes twice or invalid UTF-8, folds full-width characters or
 * cuts path parameters. @param path accepted by `guardRequest`.
 */
export function guardUpstreamPath(path: string): void {
  if (path.includes(";") || (path.includes("%") && isAmbiguousEscaped(path))) {
    throw new DomainError("bad_request", "The path is ambiguous.");
  }
}

function isAmbiguousEscaped(path: string): boolean {
  if (ESCAPED_AGAIN.test(path)) return true;
  try {
    return DELIMITER_LIKE.test(decodeURIComponent(path)) || folds(decodeURIComponent(path));
  } catch {
    // Invalid UTF-8, including overlong forms and surrogates.
    return true;
  }
}

/** Whether NFKC creates delimiters. */
function folds(decoded: string): boolean {
  const count = (text: string) => text.split(DELIMITER).length;
  return count(decoded.normalize("NFKC")) !== count(decoded);
}

function guardTarget(url: string): void {
  if (url.length > MAX_URL_CHARACTERS) throw new DomainError("uri_too_long");
  if (!url.startsWith("/"))
    throw new DomainError("bad_request", "The request target must be a path, or an http or https URL.");
  if (NOT_PRINTABLE_ASCII.test(url) || url.includes("#")) {
    throw new DomainError("bad_request", "The request target has characters that a URL cannot have.");
  }
  const query = url.indexOf("?");
  const path = query === -1 ? url : url.slice(0, query);
  if (ENCODED_DELIMITER.test(path) || BROKEN_ESCAPE.test(path) || CONFUSING_PATH.test(path)) {
    throw new DomainError("bad_request", "The path is ambiguous.");
  }
}
