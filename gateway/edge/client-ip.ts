import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { withoutPort } from "./trusted-proxies.ts";

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
