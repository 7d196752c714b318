import type { FastifyRequest } from "fastify";

const MAX_CHARACTERS = 512;

/** The client's `User-Agent`, cut to 512 characters; empty if it sent none. */
export function userAgent(request: FastifyRequest): string {
  return (request.headers["user-agent"] ?? "").slice(0, MAX_CHARACTERS);
}
