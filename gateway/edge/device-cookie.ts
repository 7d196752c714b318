import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { cookieOf } from "./cookies.ts";

const NAME = "gatehouse_device";
/** The lifetime of the token in identity-service: 180 days. */
const MAX_AGE_S = 180 * 86_400;
const MAX_LENGTH = 256;
/** Only these characters may enter a header. */
const TOKEN = /^[A-Za-z0-9._-]+$/;

/** `<version>.<user>.<device>`, the constant part of a device's tokens. */
const DEVICE = /^\d+\.[\w-]+\.[\w-]+(?=\.)/;

/** Clients without cookies send the previous token or `new` here, and receive the next one. */
const DEVICE_HEADER = "gatehouse-device";

/** The header overrides the cookie. Empty if absent or malformed. */
export function deviceTokenOf(request: FastifyRequest): string {
  const { [DEVICE_HEADER]: header = cookieOf(request, NAME) } = request.headers;
  const value = String(header);
  return value.length <= MAX_LENGTH && TOKEN.test(value) ? value : "";
}

/** The key contains the secret random device id, so it cannot be forged for another device. It is not verified here. */
export function deviceKeyOf(token: string): string | undefined {
  const [device] = DEVICE.exec(token) ?? [];
  if (device === undefined) return undefined;
  return createHash("sha256").update(`device ${device}`).digest("base64url").slice(0, 22);
}

/**
 * The token only separates the owner's login attempts from those of strangers. `Lax`, because the return from a
 * provider is a cross-site navigation. A request with the header gets no cookie, so scripts never see a cookie's token.
 */
export function keepDeviceToken(request: FastifyRequest, reply: FastifyReply, token = ""): void {
  // An older identity-service sends no device token.
  if (!TOKEN.test(token)) return;
  request.givenDeviceToken = token;
  if (request.headers[DEVICE_HEADER] !== undefined) {
    reply.header(DEVICE_HEADER, token);
    return;
  }
  const { url = "" } = request.routeOptions;
  const path = `${url.slice(0, url.indexOf("/auth/"))}/auth`;
  reply.setCookie(NAME, token, { path, maxAge: MAX_AGE_S, httpOnly: true, sameSite: "lax", secure: "auto" });
}
