import type { FastifyReply, FastifyRequest } from "fastify";

/** `Server` is omitted to disclose nothing. */
export const STANDARD_HEADERS = {
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
} as const;

const STRICT_TRANSPORT = "max-age=31536000";

/** Names and values in turn. */
export function answerHeaders(request: FastifyRequest): string[] {
  const headers = ["x-request-id", request.id, ...request.corsHeaders];
  if (request.protocol === "https") headers.push("strict-transport-security", STRICT_TRANSPORT);
  return headers;
}

/** `Strict-Transport-Security` must not be sent over plain HTTP (RFC 6797 §7.2). */
export function setStandardHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(STANDARD_HEADERS);
  reply.header("x-request-id", request.id);
  // Requests refused by the router itself have run no hook.
  const { corsHeaders = [] } = request;
  for (let index = 0; index < corsHeaders.length; index += 2) {
    reply.header(corsHeaders[index] ?? "", corsHeaders[index + 1]);
  }
  if (request.protocol === "https") reply.header("strict-transport-security", STRICT_TRANSPORT);
}
