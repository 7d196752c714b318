import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { CallContext } from "../service-kit/call-context.ts";
import type { Principal } from "../token-client/principal.ts";
import { STANDARD_HEADERS } from "./standard-headers.ts";

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
/** Set by us or by the client library, or able to make the upstream see another call than the one we checked. */
const OURS = new Set([
  "host",
  "authorization",
  "expect",
  "forwarded",
  "traceparent",
  "tracestate",
  "baggage",
  "x-request-id",
  "x-real-ip",
  "x-client-ip",
  "true-client-ip",
  "x-original-url",
  "x-rewrite-url",
  "x-http-method",
  "x-http-method-override",
  "x-method-override",
]);
const IDENTITY = /^x-(?:user|session|forwarded|actor|auth|authenticated|remote-user)(?:-|$)/;

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
 * The headers of a forwarded request: whatever identity, address or connection the client claimed is gone,
 * the verified one is set.
 *
 * @param rawHeaders names and values in turn, as they came.
 */
export function upstreamHeaders(
  rawHeaders: readonly string[],
  { principal, accessToken, call }: Caller,
): string[] {
  const headers: string[] = [];
  const named = connectionNames(rawHeaders);
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = passableUp(rawHeaders[index] ?? "");
    if (name !== "" && named?.has(name) !== true) headers.push(name, rawHeaders[index + 1] ?? "");
  }
  if (principal !== null) {
    headers.push("authorization", `Bearer ${accessToken}`, "x-user-id", principal.userId);
    headers.push("x-user-role", principal.role, "x-session-id", principal.sessionId);
  }
  headers.push("x-request-id", call.requestId, "traceparent", call.traceparent);
  return headers;
}

const passableUp = remembered((name) => !OURS.has(name) && !IDENTITY.test(name));
const passableDown = remembered((name) => !NOT_DOWNSTREAM.has(name) && !CORS.test(name));

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
