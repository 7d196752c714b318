import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import type { Principal } from "../../token-client/principal.ts";
import { withoutPort } from "./trusted-proxies.ts";
import { userAgent } from "./user-agent.ts";

const MAPPED_IPV4 = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;

/**
 * The client's address: the first from the right in `X-Forwarded-For` that is not a trusted proxy, or the
 * peer itself if that entry is no address.
 */
export function clientIp(request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? "";
  // Without a list there is nothing to walk.
  const ip = request.headers["x-forwarded-for"] === undefined ? peer : withoutPort(request.ip);
  return (isIP(ip) === 0 ? peer : ip).replace(MAPPED_IPV4, "");
}

/** Where a call comes from, for services that tell its user. */
export function clientOf(request: FastifyRequest): { clientIp: string; userAgent: string } {
  return { clientIp: clientIp(request), userAgent: userAgent(request) };
}

/** Who calls, in a handler of a route that is not public. */
export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === null)
    throw new Error(`${request.routeOptions.url} is public and has no principal`);
  return request.principal;
}
