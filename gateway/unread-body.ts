import type { FastifyReply, FastifyRequest } from "fastify";

/** Less than this is read and thrown away, so that the connection can serve the next request. */
const MAX_DISCARDED_BYTES = 64 * 1024;

/** Ends the connection after an answer that came before a large or endless request body was read. */
export function closeIfUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (request.raw.complete) return;
  const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  if (encoding !== undefined || Number(length) > MAX_DISCARDED_BYTES) reply.header("connection", "close");
}
