import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";
import { cookieOf } from "./cookies.ts";

const NAME = "gatehouse_device";
/** As long as identity-service takes the token: 180 days. */
const MAX_AGE_S = 180 * 86_400;
/** Longer than any of ours. */
const MAX_LENGTH = 256;
/** What our tokens are made of; nothing else gets into a header. */
const TOKEN = /^[A-Za-z0-9._-]+$/;

/** `<version>.<user>.<device>`: the part that all tokens of a device share. */
const DEVICE = /^\d+\.[\w-]+\.[\w-]+(?=\.)/;

/** Where clients without cookies send the token of an earlier login, or `new` if they have none, and get the next one. */
export const DEVICE_HEADER = "gatehouse-device";

/** The device token that the client keeps from an earlier login; empty if it has none. The header goes before the cookie. */
export function deviceTokenOf(request: FastifyRequest): string {
  const { [DEVICE_HEADER]: header = cookieOf(request, NAME) } = request.headers;
  const value = String(header);
  return value.length <= MAX_LENGTH && TOKEN.test(value) ? value : "";
}

/**
 * The key under which a device's calls are counted. It includes the random id of the device, which is secret, so that nobody
 * can forge the key of another device. Does not verify the token; identity-service does.
 *
 * @returns a digest; undefined if the text does not have the form of a device token.
 */
export function deviceKeyOf(token: string): string | undefined {
  const [device] = DEVICE.exec(token) ?? [];
  if (device === undefined) return undefined;
  return createHash("sha256").update(`device ${device}`).digest("base64url").slice(0, 22);
}

/**
 * Has a client keep the device token. It opens nothing: its bearer's attempts are counted apart from strangers', so
 * that they cannot lock the owner out. Sent to our own `/auth` only, under the same version prefix. `Lax`: the way back
 * from a provider is a navigation from elsewhere, to which a `Strict` cookie would make every device an unknown one. A
 * client that sent the header gets the token there, and no cookie: scripts of a page that uses cookies never see it.
 */
export function keepDeviceToken(request: FastifyRequest, reply: FastifyReply, token = ""): void {
  // Empty from a version that knows no devices.
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
