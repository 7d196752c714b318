import type { FastifyReply, FastifyRequest } from "fastify";

/** On every answer, proxied ones included. `Server` is not among them: it is nobody's business. */
export const STANDARD_HEADERS = {
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
} as const;

const STRICT_TRANSPORT = "max-age=31536000";

/** What every forwarded answer carries beside `STANDARD_HEADERS`, as names and values in turn. */
export function answerHeaders(request: FastifyRequest): string[] {
  const headers = ["x-request-id", request.id, ...request.corsHeaders];
  if (request.protocol === "https") headers.push("strict-transport-security", STRICT_TRANSPORT);
  return headers;
}

/**
 * Sets what every answer carries. `Strict-Transport-Security` only where the client came over HTTPS, which
 * a trusted proxy tells us: over plain HTTP it must not be sent.
 *
 * @see RFC 6797 §7.2.
 */
export function setStandardHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(STANDARD_HEADERS);
  reply.header("x-request-id", request.id);
  // What the router itself refuses has been through no hook.
  const { corsHeaders = [] } = request;
  for (let index = 0; index < corsHeaders.length; index += 2) {
    reply.header(corsHeaders[index] ?? "", corsHeaders[index + 1]);
  }
  if (request.protocol === "https") reply.header("strict-transport-security", STRICT_TRANSPORT);
}
