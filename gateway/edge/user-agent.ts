import type { FastifyRequest } from "fastify";

const MAX_CHARACTERS = 512;
/** Of 512 characters that take the most bytes in UTF-8. */
const MAX_BYTES = 4 * MAX_CHARACTERS;
const BEYOND_ASCII = /[\x80-\xff]/;

/** The client's `User-Agent`, cut to 512 characters; empty if it sent none. */
export function userAgent(request: FastifyRequest): string {
  const header = (request.headers["user-agent"] ?? "").slice(0, MAX_BYTES);
  const text = BEYOND_ASCII.test(header) ? decoded(Buffer.from(header, "latin1")) : header;
  return text.slice(0, MAX_CHARACTERS).toWellFormed();
}

/** Node reads header bytes as Latin-1; many clients write UTF-8. What is no UTF-8 stays Latin-1 (RFC 9110 §5.5). */
function decoded(bytes: Buffer): string {
  try {
    // A character that the cut has split is left out, and makes the rest no less UTF-8.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return bytes.toString("latin1");
  }
}
