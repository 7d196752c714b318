import type { FastifyReply, FastifyRequest } from "fastify";

/** Smaller bodies are discarded to reuse the connection. */
const MAX_DISCARDED_BYTES = 64 * 1024;

/** If the client waits for that. HTTP/1.0 has no interim answers (RFC 9110 §10.1.1, §15.2). */
export function askForBody({ raw, headers }: FastifyRequest, reply: FastifyReply): void {
  if (headers.expect !== undefined && raw.httpVersion !== "1.0") reply.raw.writeContinue();
}

export function closeIfUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (leavesUnread(request)) reply.header("connection", "close");
}

/** A body may never arrive after an `Expect`. */
export function leavesUnread({ raw, headers, state }: FastifyRequest): boolean {
  if (raw.complete) return false;
  if (state.errorCode === "request_timeout") return true;
  const { "content-length": length = "0", "transfer-encoding": encoding, expect } = headers;
  return encoding !== undefined || expect !== undefined || Number(length) > MAX_DISCARDED_BYTES;
}
