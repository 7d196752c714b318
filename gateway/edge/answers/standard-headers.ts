import type { FastifyReply, FastifyRequest } from "fastify";

export const STANDARD_HEADERS = {
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
} as const;

/** Says that the gateway itself speaks: no upstream can send this field. */
export const ANSWER_MARK = { "gatehouse-answer": "gateway" } as const;

const STRICT_TRANSPORT = "max-age=31536000";

/** Names and values in turn. */
export function answerHeaders(request: FastifyRequest): string[] {
  const headers = ["x-request-id", request.id, ...request.state.corsHeaders];
  const { dpopNonce } = request.state;
  if (dpopNonce !== null) headers.push("dpop-nonce", dpopNonce);
  if (request.protocol === "https") headers.push("strict-transport-security", STRICT_TRANSPORT);
  return headers;
}

/** No `Strict-Transport-Security` over plain HTTP (RFC 6797 §7.2). */
export function setStandardHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers(STANDARD_HEADERS).headers(ANSWER_MARK);
  reply.header("x-request-id", request.id);
  // The router itself refused a request without a state.
  const corsHeaders = request.state?.corsHeaders ?? [];
  for (let index = 0; index < corsHeaders.length; index += 2) {
    reply.header(corsHeaders[index] ?? "", corsHeaders[index + 1]);
  }
  if (request.protocol === "https") reply.header("strict-transport-security", STRICT_TRANSPORT);
}
