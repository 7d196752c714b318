import { createHash } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";

export interface Cacheable {
  content: Buffer;
  mediaType: string;
  etag: string;
}

const HTTP_NOT_MODIFIED = 304;
/** Then clients revalidate. */
const MAX_AGE_S = 300;

export function cacheable(content: string | Buffer, mediaType: string): Cacheable {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  const digest = createHash("sha256").update(bytes).digest("base64url");
  return { content: bytes, mediaType, etag: `"${digest}"` };
}

/** @see RFC 9110 §13.1.2. */
export function sendCacheable(
  request: FastifyRequest,
  reply: FastifyReply,
  what: Cacheable,
  cacheControl = `public, max-age=${MAX_AGE_S}`,
): FastifyReply {
  const { content, mediaType, etag } = what;
  reply.headers({ etag, "cache-control": cacheControl });
  if (hasIt(request.headers["if-none-match"], etag)) return reply.code(HTTP_NOT_MODIFIED).send();
  return reply.header("content-type", mediaType).send(content);
}

function hasIt(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = (ifNoneMatch ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes(etag) || tags.includes("*");
}
