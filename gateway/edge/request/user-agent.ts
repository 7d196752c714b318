import type { FastifyRequest } from "fastify";

const MAX_CHARACTERS = 512;
const MAX_BYTES = 4 * MAX_CHARACTERS;
const BEYOND_ASCII = /[\x80-\xff]/;

/** Empty if absent. */
export function userAgent(request: FastifyRequest): string {
  const header = (request.headers["user-agent"] ?? "").slice(0, MAX_BYTES);
  const text = BEYOND_ASCII.test(header) ? decoded(Buffer.from(header, "latin1")) : header;
  return text.slice(0, MAX_CHARACTERS).toWellFormed();
}

/** Many clients send UTF-8 (RFC 9110 §5.5). */
function decoded(bytes: Buffer): string {
  try {
    // Streaming mode drops a character split by the cut.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return bytes.toString("latin1");
  }
}
