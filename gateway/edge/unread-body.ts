import type { FastifyReply, FastifyRequest } from "fastify";

/** Smaller bodies are discarded to reuse the connection. */
const MAX_DISCARDED_BYTES = 64 * 1024;

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
