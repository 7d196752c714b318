import type { FastifyRequest } from "fastify";
import { clientIp } from "./client-ip.ts";
import { userAgent } from "./user-agent.ts";

/** Where a call comes from, for services that tell its user. */
export function clientOf(request: FastifyRequest): { clientIp: string; userAgent: string } {
  return { clientIp: clientIp(request), userAgent: userAgent(request) };
}
