import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { cookieOf } from "./cookies.ts";

const NAME = "gatehouse_device";
/** The same as in identity-service. */
const MAX_AGE_S = 180 * 86_400;
const MAX_LENGTH = 256;
const TOKEN = /^[A-Za-z0-9._-]+$/;

/** Not every login gives one. */
export function isDeviceToken(token: string): boolean {
  return TOKEN.test(token);
}

/** `<version>.<user>.<device>`, the constant part of a device's tokens. */
const DEVICE = /^\d+\.[\w-]+\.[\w-]+(?=\.)/;

/** Clients without cookies send the previous token or `new`. */
const DEVICE_HEADER = "gatehouse-device";

/** The header overrides the cookie. Empty if absent or malformed. */
export function deviceTokenOf(request: FastifyRequest): string {
  const { [DEVICE_HEADER]: header = cookieOf(request, NAME) } = request.headers;
  const value = String(header);
  return value.length <= MAX_LENGTH && TOKEN.test(value) ? value : "";
}

/** Not verified: a device id is secret and random, so a key cannot be forged for another device. */
export function deviceKeyOf(token: string): string | undefined {
  const [device] = DEVICE.exec(token) ?? [];
  if (device === undefined) return undefined;
  return createHash("sha256").update(`device ${device}`).digest("base64url").slice(0, 22);
}

/** `Lax`, because the return from a provider is cross-site. Scripts never see a cookie's token. */
export function keepDeviceToken(request: FastifyRequest, reply: FastifyReply, token: string): void {
  if (request.headers[DEVICE_HEADER] !== undefined) {
    reply.header(DEVICE_HEADER, token);
    return;
  }
  const { url = "" } = request.routeOptions;
  const path = `${url.slice(0, url.indexOf("/auth/"))}/auth`;
  reply.setCookie(NAME, token, { path, maxAge: MAX_AGE_S, httpOnly: true, sameSite: "lax", secure: "auto" });
}
