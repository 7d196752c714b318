import type { FastifyReply, FastifyRequest } from "fastify";
import type {
  BeginOAuthLoginRequest,
  BeginOAuthLoginResponse,
} from "#proto/gatehouse/identity/v1/identity_service.ts";
import { cookieOf } from "../edge/request/cookies.ts";

const NAME = "gatehouse_oauth";
/** Browsers accept this prefix only from this origin over HTTPS (RFC 6265bis §4.1.3.2). */
const SECURE_NAME = `__Host-${NAME}`;
/** No other text is put into a header. */
const TOKEN = /^[A-Za-z0-9_-]{43}$/;

/** Empty without a token. */
export function browserTokenOf(
  request: FastifyRequest,
): Pick<BeginOAuthLoginRequest, "browserToken" | "isBrowserTokenSecure"> {
  const secure = tokenIn(request, SECURE_NAME);
  if (secure !== "") return { browserToken: secure, isBrowserTokenSecure: true };
  return { browserToken: tokenIn(request, NAME), isBrowserTokenSecure: false };
}

/**
 * `Lax`, because `Strict` cookies are not sent with the navigation from the provider, which is always a GET:
 * see the POST of `oauth-routes.ts`.
 */
export function keepBrowserToken(reply: FastifyReply, departure: BeginOAuthLoginResponse): void {
  const { browserToken, expiresInS: maxAge, isSecure: secure } = departure;
  if (!TOKEN.test(browserToken)) throw new Error("identity-service sent an invalid token");
  const options = { path: "/", maxAge, httpOnly: true, sameSite: "lax", secure } as const;
  reply.setCookie(secure ? SECURE_NAME : NAME, browserToken, options);
}

function tokenIn(request: FastifyRequest, name: string): string {
  const value = cookieOf(request, name);
  return TOKEN.test(value) ? value : "";
}
