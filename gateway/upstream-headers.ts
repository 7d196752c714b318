import type { CallContext } from "../service-kit/call-context.ts";
import type { Principal } from "../token-client/principal.ts";

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

/** What a forwarded call is made on behalf of. */
export interface Caller {
  principal: Pick<Principal, "userId" | "role" | "sessionId">;
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
  return [
    ...passableHeaders(rawHeaders, (name) => !OURS.has(name) && !IDENTITY.test(name)),
    "authorization",
    `Bearer ${accessToken}`,
    "x-user-id",
    principal.userId,
    "x-user-role",
    principal.role,
    "x-session-id",
    principal.sessionId,
    "x-request-id",
    call.requestId,
    "traceparent",
    call.traceparent,
  ];
}

function passableHeaders(rawHeaders: readonly string[], isPassable: (name: string) => boolean): string[] {
  const named = connectionNames(rawHeaders);
  const kept: string[] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? "").toLowerCase();
    // Many servers read `x_user_id` as `X-User-Id`.
    if (name.includes("_") || HOP_BY_HOP.has(name) || named.has(name) || !isPassable(name)) continue;
    kept.push(name, rawHeaders[index + 1] ?? "");
  }
  return kept;
}

/** The headers that a `Connection` header declares to be hop-by-hop. */
function connectionNames(rawHeaders: readonly string[]): Set<string> {
  const names = new Set<string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() !== "connection") continue;
    for (const name of rawHeaders[index + 1]?.split(",") ?? []) names.add(name.trim().toLowerCase());
  }
  return names;
}

/** What an upstream tells of itself, and what is ours to say. */
const NOT_DOWNSTREAM = new Set([
  "server",
  "x-powered-by",
  "x-request-id",
  "strict-transport-security",
  "via",
]);

type ResponseHeaders = Record<string, string | string[] | undefined>;

/** The headers of a forwarded answer, without those of the connection to the upstream. */
export function downstreamHeaders(headers: ResponseHeaders): Record<string, string | string[]> {
  const connection = [headers.connection ?? []].flat().join(",");
  const named = new Set(connection.split(",").map((name) => name.trim().toLowerCase()));
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || HOP_BY_HOP.has(name) || named.has(name) || NOT_DOWNSTREAM.has(name)) continue;
    kept[name] = value;
  }
  return kept;
}
