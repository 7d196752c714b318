import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { CallContext } from "../../service-kit/call-context.ts";
import type { Principal } from "../../token-client/principal.ts";
import { STANDARD_HEADERS } from "../edge/standard-headers.ts";

/** Connection-level headers: they end at each hop (RFC 9110 §7.6.1, and what older peers call so). */
const HOP_BY_HOP = new Set([
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
/**
 * What a client may say to an upstream unless a route names more: content and its negotiation, conditions, ranges, caching,
 * what browsers add, cookies. Every other header stays here, since any of them may be one by which some upstream, proxy or
 * framework knows a user, an address, or another path or method than the checked one: there is no complete list of those.
 *
 * @see https://www.iana.org/assignments/http-fields/http-fields.xhtml
 */
const ORDINARY = new Set([
  "accept",
  "accept-charset",
  "accept-encoding",
  "accept-language",
  "cache-control",
  "content-digest",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-length",
  "content-md5",
  "content-range",
  "content-type",
  "cookie",
  "date",
  "digest",
  "dnt",
  "idempotency-key",
  "if-match",
  "if-modified-since",
  "if-none-match",
  "if-range",
  "if-unmodified-since",
  "last-event-id",
  "origin",
  "pragma",
  "prefer",
  "priority",
  "range",
  "referer",
  "repr-digest",
  "save-data",
  "signature",
  "signature-input",
  "upgrade-insecure-requests",
  "user-agent",
  "want-content-digest",
  "want-repr-digest",
  "x-requested-with",
]);
/** Families of the same: client hints, fetch metadata, privacy signals, and the handshake of WebSockets. */
const ORDINARY_FAMILY = /^sec-(?:ch-|fetch-|gpc$|websocket-)/;

/** Names seen so far, as they were written, and what becomes of them: few clients and servers, few spellings. */
const MAX_KNOWN_NAMES = 1_000;

/** What a forwarded call is made on behalf of. */
export interface Caller {
  /** Null on public routes. */
  principal: Pick<Principal, "userId" | "role" | "sessionId"> | null;
  /** The verified token's text, so that the upstream can verify again. */
  accessToken: string;
  call: Pick<CallContext, "requestId" | "traceparent">;
}

/**
 * The headers of a forwarded request: of the client's only ordinary ones and those that the route allows by name; the
 * verified identity is set.
 *
 * @param rawHeaders names and values in turn, as they came.
 * @param allowed more names that pass, in lower case.
 */
export function upstreamHeaders(
  rawHeaders: readonly string[],
  { principal, accessToken, call }: Caller,
  allowed: ReadonlySet<string>,
): string[] {
  const headers: string[] = [];
  const named = connectionNames(rawHeaders);
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = rawHeaders[index] ?? "";
    const name = passableUp(written) || allowedName(written, allowed);
    if (name !== "" && named?.has(name) !== true) headers.push(name, rawHeaders[index + 1] ?? "");
  }
  if (principal !== null) {
    headers.push("authorization", `Bearer ${accessToken}`, "x-user-id", principal.userId);
    headers.push("x-user-role", principal.role, "x-session-id", principal.sessionId);
  }
  headers.push("x-request-id", call.requestId, "traceparent", call.traceparent);
  return headers;
}

const passableUp = remembered((name) => ORDINARY.has(name) || ORDINARY_FAMILY.test(name));
const passableDown = remembered((name) => !NOT_DOWNSTREAM.has(name) && !CORS.test(name));

/** The name in lower case if the route allows it, which no route can of what the gateway itself sets; empty else. */
function allowedName(written: string, allowed: ReadonlySet<string>): string {
  if (allowed.size === 0) return "";
  const name = written.toLowerCase();
  return allowed.has(name) ? name : "";
}

/** From a name as it was written to the one to pass on, in lower case; empty for a header that ends here. */
function remembered(isPassable: (name: string) => boolean): (written: string) => string {
  const known = new Map<string, string>();
  return (written) => {
    const before = known.get(written);
    if (before !== undefined) return before;
    const name = written.toLowerCase();
    // Many servers read `x_user_id` as `X-User-Id`.
    const passed = name.includes("_") || HOP_BY_HOP.has(name) || !isPassable(name) ? "" : name;
    if (known.size < MAX_KNOWN_NAMES) known.set(written, passed);
    return passed;
  };
}

/** The headers that a `Connection` header declares to be hop-by-hop; undefined if none is. */
function connectionNames(rawHeaders: readonly (string | Buffer)[]): Set<string> | undefined {
  let names: Set<string> | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = rawHeaders[index] ?? "";
    if (written.length !== CONNECTION.length || text(written).toLowerCase() !== CONNECTION) continue;
    const value = text(rawHeaders[index + 1] ?? "").toLowerCase();
    if (value === "keep-alive" || value === "close") continue;
    names ??= new Set();
    for (const name of value.split(",")) names.add(name.trim());
  }
  return names;
}

const CONNECTION = "connection";

/** Header bytes are Latin-1 to Node and to undici, both ways. */
function text(value: string | Buffer): string {
  return typeof value === "string" ? value : value.toString("latin1");
}

/** What an upstream tells of itself, and what is ours to say. */
const NOT_DOWNSTREAM = new Set([
  "server",
  "x-powered-by",
  "x-request-id",
  "strict-transport-security",
  "via",
]);
/** Which origins may call is said in the routes file. */
const CORS = /^access-control-/;
const STANDARD = Object.entries(STANDARD_HEADERS);
const STANDARD_NAMES = Object.keys(STANDARD_HEADERS);

/**
 * Adds the headers of a forwarded answer, without those of the connection to the upstream; and ours, where the
 * upstream has none of its own.
 *
 * @param headers names and values in turn, added to.
 * @param rawHeaders names and values in turn, as the upstream sent them.
 */
export function addDownstreamHeaders(headers: string[], rawHeaders: readonly (string | Buffer)[]): void {
  const named = connectionNames(rawHeaders);
  let present = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = passableDown(text(rawHeaders[index] ?? ""));
    if (name === "" || named?.has(name)) continue;
    headers.push(name, text(rawHeaders[index + 1] ?? ""));
    const standard = STANDARD_NAMES.indexOf(name);
    if (standard !== -1) present |= 1 << standard;
  }
  for (let index = 0; index < STANDARD.length; index += 1) {
    const [name, value] = STANDARD[index] as [string, string];
    if ((present & (1 << index)) === 0) headers.push(name, value);
  }
}

/** What may not come after a body, because it says how to read it (RFC 9110 §6.5.1). */
const NOT_IN_TRAILERS =
  /^(?:content-|host$|set-cookie$|authorization$|www-authenticate$|cache-control$|vary$)/;

/** The trailers of a forwarded answer. */
export function passableTrailers(trailers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const passed = Object.entries(trailers).filter(
    ([name]) => passableDown(name) !== "" && !NOT_IN_TRAILERS.test(name),
  );
  return Object.fromEntries(passed);
}
