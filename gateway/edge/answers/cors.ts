import type { FastifyRequest } from "fastify";

const NOTHING: readonly string[] = [];
const VARY = ["vary", "origin"];
const CREDENTIALS = ["access-control-allow-credentials", "true"];
const BROWSER_HEADER = /(?:^|, *)gatehouse-client(?= *(?:,|$))/i;
const EXPOSED =
  "x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, location, gatehouse-device, " +
  "dpop-nonce, www-authenticate, gatehouse-answer";
const PREFLIGHT_MAX_AGE_S = 600;
const HEADER_NAMES = /^[a-z0-9-]+(?: *, *[a-z0-9-]+)*$/i;
const MAX_HEADER_NAMES_CHARACTERS = 1_000;

/**
 * Only origins listed by name may send cookies. @returns names and values in turn.
 * @param takesCookies whether the route reads or sets any.
 * @see https://fetch.spec.whatwg.org/#http-cors-protocol
 */
export function corsHeadersFor(
  { headers: { origin } }: FastifyRequest,
  allowed: ReadonlySet<string>,
  takesCookies: () => boolean,
): readonly string[] {
  if (allowed.size === 0) return NOTHING;
  if (allowed.has("*")) {
    return ["access-control-allow-origin", "*", "access-control-expose-headers", EXPOSED];
  }
  if (origin === undefined || !allowed.has(origin)) return VARY;
  return [
    ...VARY,
    "access-control-allow-origin",
    origin,
    ...(takesCookies() ? CREDENTIALS : NOTHING),
    "access-control-expose-headers",
    EXPOSED,
  ];
}

export function isOriginAllowed(request: FastifyRequest): boolean {
  return request.state.corsHeaders.includes("access-control-allow-origin");
}

/** @param takesSession whether a browser session may come to this path. */
export function preflightHeaders(
  request: FastifyRequest,
  methods: readonly string[],
  takesSession: boolean,
): Record<string, string> {
  const { "access-control-request-method": method, "access-control-request-headers": names = "" } =
    request.headers;
  if (method === undefined || !isOriginAllowed(request)) return {};
  const isReadable = names.length <= MAX_HEADER_NAMES_CHARACTERS && HEADER_NAMES.test(names);
  const isAllowed = takesSession || !BROWSER_HEADER.test(names);
  return {
    "access-control-allow-methods": methods.join(", "),
    ...(isReadable && isAllowed && { "access-control-allow-headers": names }),
    "access-control-max-age": String(PREFLIGHT_MAX_AGE_S),
  };
}
