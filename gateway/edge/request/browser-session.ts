import { fastifyCookie } from "@fastify/cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Confirmation } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { tokenTypeOf } from "#token-client/bearer-token.ts";
import { normalOrigin } from "../proofs/authority.ts";
import { cookieOf, cookiesOf } from "./cookies.ts";

const HEADER = "gatehouse-client";
/** Browsers accept this prefix only from this very origin, with `Secure` and for every path (RFC 6265bis §4.1.3.2). */
const NAME = "__Host-gatehouse-refresh";
/** Says scripts of this host that there is a refresh token to ask with, and nothing else: a first visit makes no call in vain. */
const HINT = `${NAME}-hint`;
/** Short-lived, and set only by a proof of the device's key. */
const DEVICE_NAME = "__Host-gatehouse-bound";
const DEVICE_COOKIE = /^\d+\.[\w-]+$/;
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;
/** What browsers with Device Bound Session Credentials call; absent where the operator has not turned them on. */
export const DEVICE_SESSION_PATH = "/auth/device-session";
const CHALLENGE = /^[\w.-]+$/;
const ATTRIBUTES = { path: "/", httpOnly: true, secure: true, sameSite: "strict" } as const;

/** Of a session, never logged. */
export interface IssuedTokens {
  accessToken: string;
  refreshToken: string;
  expiresInS: number;
  refreshExpiresInS: number;
  /** What they are bound to. */
  confirmation?: Confirmation | undefined;
  /** Of a new session. */
  deviceChallenge?: string | undefined;
}

/** Whether the refresh token of the call is in a cookie. */
export function isBrowserSession({ state, headers }: FastifyRequest): boolean {
  return state.policy?.cookies === "session" && headers[HEADER] === "browser";
}

/**
 * @throws {DomainError} `origin_not_allowed` to scripts of other origins; `bad_request` for another value, whose client
 *   would get the refresh token where scripts can read it.
 */
export function guardBrowserSession(request: FastifyRequest, allowedOrigins: ReadonlySet<string>): void {
  const { policy } = request.state;
  const client = request.headers[HEADER];
  if (policy?.cookies !== "session" || client === undefined) return;
  if (client !== "browser") throw new DomainError("bad_request", "Gatehouse-Client has one value: browser.");
  if (!isFromAllowedOrigin(request, allowedOrigins)) throw new DomainError("origin_not_allowed");
}

/** An origin of another site is refused although it is listed: its browser would not keep a `Strict` cookie. */
function isFromAllowedOrigin({ headers, protocol }: FastifyRequest, allowed: ReadonlySet<string>): boolean {
  const { origin, host = "", "sec-fetch-site": site } = headers;
  if (origin === undefined) return site === "same-origin";
  if (normalOrigin(origin) === `${protocol}://${host}`) return true;
  return origin !== "*" && allowed.has(origin) && site !== "cross-site";
}

/** RFC 6749 §5.1, in camelCase. In a browser session, the refresh token becomes its cookie. */
export function deliverTokens(request: FastifyRequest, reply: FastifyReply, tokens: IssuedTokens) {
  const { accessToken, refreshToken, expiresInS: expiresIn, refreshExpiresInS: maxAge } = tokens;
  const access = { accessToken, tokenType: tokenTypeOf(tokens.confirmation), expiresIn };
  if (!isBrowserSession(request)) return { ...access, refreshToken };
  if (!TOKEN.test(refreshToken)) throw new Error("token-service sent an invalid refresh token");
  setCookies(reply, refreshToken, "1", maxAge);
  offerBinding(reply, tokens);
  return access;
}

/** A browser that knows the header makes a key, and calls the path by itself. */
function offerBinding(reply: FastifyReply, { deviceChallenge = "" }: IssuedTokens): void {
  if (!CHALLENGE.test(deviceChallenge)) return;
  if (!reply.server.hasRoute({ method: "POST", url: DEVICE_SESSION_PATH })) return;
  const offer = `(ES256);path="${DEVICE_SESSION_PATH}";challenge="${deviceChallenge}"`;
  reply.header("secure-session-registration", offer);
}

/** More than one if another site may have planted one. */
export const keptRefreshTokens = (request: FastifyRequest): string[] => cookiesOf(request, NAME);

/** Empty if absent. @throws {DomainError} `bad_request` for two. */
export function keptRefreshToken(request: FastifyRequest): string {
  const [token = "", ...others] = keptRefreshTokens(request);
  if (others.length > 0) throw new DomainError("bad_request", `There are two cookies ${NAME}.`);
  return token;
}

export function dropRefreshToken(reply: FastifyReply): void {
  setCookies(reply, "", "", 0);
}

function setCookies(reply: FastifyReply, token: string, hint: string, maxAge: number): void {
  setCookie(reply, NAME, token, { ...ATTRIBUTES, maxAge });
  setCookie(reply, HINT, hint, { ...ATTRIBUTES, maxAge, httpOnly: false });
}

/** Empty if absent. */
export const deviceCookieOf = (request: FastifyRequest): string => cookieOf(request, DEVICE_NAME);

/** @returns the cookie as the browser is to look for it. */
export function keepDeviceCookie(reply: FastifyReply, value: string, maxAge: number) {
  if (!DEVICE_COOKIE.test(value)) throw new Error("token-service sent an invalid cookie");
  setCookie(reply, DEVICE_NAME, value, { ...ATTRIBUTES, maxAge });
  return {
    type: "cookie",
    name: DEVICE_NAME,
    attributes: "Path=/; Secure; HttpOnly; SameSite=Strict",
  } as const;
}

function setCookie(
  reply: FastifyReply,
  name: string,
  value: string,
  attributes: Parameters<typeof fastifyCookie.serialize>[2],
): void {
  reply.header("set-cookie", fastifyCookie.serialize(name, value, attributes));
}
