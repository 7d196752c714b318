import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { acrOf } from "#token-client/assurance.ts";
import type { Principal } from "#token-client/principal.ts";
import { withoutPort } from "./trusted-proxies.ts";
import { userAgent } from "./user-agent.ts";

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

/** Browsers name it when they open a page. */
export function acceptsHtml({ headers: { accept } }: FastifyRequest): boolean {
  return accept?.includes("text/html") === true;
}
