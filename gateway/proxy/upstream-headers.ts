import type { CallContext } from "#kit/rpc/call-context.ts";
import { acrOf } from "#token-client/assurance.ts";
import type { Principal } from "#token-client/principal.ts";
import { withoutOwnCookies } from "../edge/request/cookies.ts";
import type { UsedApproval } from "../edge/request/request-state.ts";
import { HOP_BY_HOP } from "../edge/request-guard.ts";

/**
 * Upstreams may trust any header for identity, address, path or method, and no deny list is complete.
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
/** Client hints, fetch metadata, privacy signals and the WebSocket handshake. */
const ORDINARY_FAMILY = /^sec-(?:ch-|fetch-|gpc$|websocket-)/;

const MAX_KNOWN_NAMES = 1_000;

export interface Caller {
  /** Null on public routes. */
  access: {
    principal: Omit<Principal, "tokenId" | "keyId" | "amr" | "issuedAt" | "expiresAt">;
  } | null;
  call: Pick<CallContext, "requestId" | "traceparent">;
  approval: UsedApproval | null;
}

/**
 * Sets the verified identity.
 * @param rawHeaders of a guarded request: names and values in turn. @param authorization for this upstream. @param allowed lower-case names.
 */
export function upstreamHeaders(
  rawHeaders: readonly string[],
  { access, call, approval }: Caller,
  authorization: string | null,
  allowed: ReadonlySet<string>,
): string[] {
  const headers: string[] = [];
  const cookies: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = rawHeaders[index] ?? "";
    const name = passableUp(written) || allowedName(written, allowed);
    if (name === "") continue;
    const value = rawHeaders[index + 1] ?? "";
    if (name === "cookie") cookies.push(withoutOwnCookies(value));
    else headers.push(name, value);
  }
  // One field, because clients of HTTP/2 split it (RFC 9113 §8.2.3).
  const cookie = cookies.filter((each) => each !== "").join("; ");
  if (cookie !== "") headers.push("cookie", cookie);
  if (authorization !== null) headers.push("authorization", authorization);
  if (access !== null) headers.push(...identityHeaders(access.principal));
  if (approval !== null) {
    headers.push("x-approval-id", approval.id, "x-approval-method", approval.method);
    headers.push("x-approval-digest", approval.digest);
    headers.push("x-approval-use", approval.isRepeated ? "repeated" : "first");
  }
  headers.push("x-request-id", call.requestId, "traceparent", call.traceparent);
  return headers;
}

/** A client has no role: an upstream that asks for one refuses it. */
function identityHeaders(principal: NonNullable<Caller["access"]>["principal"]): string[] {
  const { kind, userId, clientId, role, scopes, sessionId, acr } = principal;
  if (kind === "client")
    return ["x-client-id", clientId, "x-scope", scopes.join(" "), "x-session-id", sessionId];
  const session = ["x-user-id", userId, "x-user-role", role, "x-session-id", sessionId];
  return [...session, "x-auth-context", acrOf(acr), "x-auth-time", authTimeOf(principal)];
}

/** In seconds since 1970. */
function authTimeOf({ authTime }: Pick<Principal, "authTime">): string {
  return String(Math.floor(authTime.getTime() / 1_000));
}

const passableUp = remembered((name) => ORDINARY.has(name) || ORDINARY_FAMILY.test(name));

/** Empty if not allowed. Routes cannot allow headers that the gateway sets. */
export function allowedName(written: string, allowed: ReadonlySet<string>): string {
  if (allowed.size === 0) return "";
  const name = written.toLowerCase();
  return allowed.has(name) ? name : "";
}

/** Caches the name to forward, empty for a dropped header. */
export function remembered(isPassable: (name: string) => boolean): (written: string) => string {
  const known = new Map<string, string>();
  return (written) => {
    const before = known.get(written);
    if (before !== undefined) return before;
    const name = written.toLowerCase();
    // Many servers treat `x_user_id` as `X-User-Id`.
    const passed = name.includes("_") || HOP_BY_HOP.has(name) || !isPassable(name) ? "" : name;
    if (known.size < MAX_KNOWN_NAMES) known.set(written, passed);
    return passed;
  };
}

export function connectionNames(rawHeaders: readonly (string | Buffer)[]): Set<string> | undefined {
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

/** Node and undici use Latin-1 for header bytes. */
export function text(value: string | Buffer): string {
  return typeof value === "string" ? value : value.toString("latin1");
}
