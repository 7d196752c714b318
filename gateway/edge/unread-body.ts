import type { FastifyReply, FastifyRequest } from "fastify";

/** Less than this is read and thrown away, so that the connection can serve the next request. */
const MAX_DISCARDED_BYTES = 64 * 1024;

/** Ends the connection after an answer that came before a request's body was read. */
export function closeIfUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (leavesUnread(request)) reply.header("connection", "close");
}

/**
 * Whether what is left of a request's body is too much to read it away, or may never come: a client that waits for a
 * 100 and gets another answer may go on with its next request.
 */
export function leavesUnread({ raw, headers, errorCode }: FastifyRequest): boolean {
  if (raw.complete) return false;
  if (errorCode === "request_timeout") return true;
  const { "content-length": length = "0", "transfer-encoding": encoding, expect } = headers;
  return encoding !== undefined || expect !== undefined || Number(length) > MAX_DISCARDED_BYTES;
}
