import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";

const MAPPED_IPV4 = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;

/**
 * The client's address: the first from the right in `X-Forwarded-For` that is not a trusted proxy, or the
 * peer itself if that entry is no address.
 */
export function clientIp(request: FastifyRequest): string {
  const address = isIP(request.ip) === 0 ? (request.socket.remoteAddress ?? "") : request.ip;
  return address.replace(MAPPED_IPV4, "");
}
