import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import type { Actor } from "#kit/rpc/call-context.ts";
import { preferredLanguage } from "#kit/values/locale.ts";
import { acrOf } from "#token-client/assurance.ts";
import { callerIdOf, type Principal, type Subject } from "#token-client/principal.ts";
import { withoutPort } from "./trusted-proxies.ts";

const MAPPED_IPV4 = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;

/** The rightmost untrusted entry of `X-Forwarded-For`, or the peer if that entry is not an address. */
export function clientIp(request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? "";
  const ip = plainAddress(request.headers["x-forwarded-for"] === undefined ? peer : request.ip);
  return isIP(ip) === 0 ? plainAddress(peer) : ip;
}

/** Reads an entry of `X-Forwarded-For`. */
export function plainAddress(entry: string): string {
  return withoutPort(entry).replace(MAPPED_IPV4, "");
}

export function clientOf(request: FastifyRequest): { clientIp: string; userAgent: string } {
  return { clientIp: clientIp(request), userAgent: userAgent(request) };
}

/** For the services behind the gateway, and for the audit log. */
export function actorOf(subject: Subject): Actor {
  const { kind, role, sessionId, scopes } = subject;
  return { userId: callerIdOf(subject), role, sessionId, ...(kind === "client" && { scopes }) };
}

/** @throws on a public route. */
export function principalOf(request: FastifyRequest): Principal {
  const { access } = request.state;
  if (access === null) throw new Error(`${request.routeOptions.url} is public and has no principal`);
  return access.principal;
}

/** For identity-service, which asks the account's own level of a change of how one logs in. */
export function ownerOf(request: FastifyRequest) {
  const { userId, sessionId, authTime, acr } = principalOf(request);
  return { userId, sessionId, authTime, acr: acrOf(acr), ...clientOf(request) };
}

/** Of `Accept-Language`; empty if it names none. */
export function acceptedLanguage({ headers }: FastifyRequest): string {
  return preferredLanguage(headers["accept-language"] ?? "") ?? "";
}

/** Browsers name it when they open a page. */
export function acceptsHtml({ headers: { accept } }: FastifyRequest): boolean {
  return accept?.includes("text/html") === true;
}

const MAX_CHARACTERS = 512;
const MAX_BYTES = 4 * MAX_CHARACTERS;
const BEYOND_ASCII = /[\x80-\xff]/;

/** Empty if absent. */
export function userAgent(request: FastifyRequest): string {
  const header = (request.headers["user-agent"] ?? "").slice(0, MAX_BYTES);
  const text = BEYOND_ASCII.test(header) ? decoded(Buffer.from(header, "latin1")) : header;
  return text.slice(0, MAX_CHARACTERS).toWellFormed();
}

/** Many clients send UTF-8 (RFC 9110 §5.5). */
function decoded(bytes: Buffer): string {
  try {
    // Streaming mode drops a character split by the cut.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return bytes.toString("latin1");
  }
}
