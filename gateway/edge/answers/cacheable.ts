import { createHash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";
import { HTTP_NOT_MODIFIED } from "./http-errors.ts";

export interface Cacheable {
  content: Buffer;
  mediaType: string;
  etag: string;
}

/** By content coding; `identity` always. */
export type Encoded = Readonly<Record<"identity" | "br" | "gzip", Cacheable>>;

/** Then clients revalidate. */
const MAX_AGE_S = 300;

export function cacheable(content: string | Buffer, mediaType: string): Cacheable {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  const digest = createHash("sha256").update(bytes).digest("base64url");
  return { content: bytes, mediaType, etag: `"${digest}"` };
}

/** The best quality, 11, takes fifty times as long for a tenth of the bytes. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } };

export function encodedText(content: string | Buffer, mediaType: string): Encoded {
  return {
    identity: cacheable(content, mediaType),
    br: cacheable(brotliCompressSync(content, BROTLI), mediaType),
    gzip: cacheable(gzipSync(content), mediaType),
  };
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

/** In the best coding that the client accepts. */
export function sendEncoded(
  request: FastifyRequest,
  reply: FastifyReply,
  encoded: Encoded,
  cacheControl?: string,
): FastifyReply {
  const coding = codingOf(request.headers["accept-encoding"]);
  reply.header("vary", [reply.getHeader("vary"), "Accept-Encoding"].filter(Boolean).join(", "));
  if (coding !== "identity") reply.header("content-encoding", coding);
  return sendCacheable(request, reply, encoded[coding], cacheControl);
}

/** Ours in our order: every browser takes brotli. @see RFC 9110 §12.5.3. */
function codingOf(acceptEncoding: string | string[] | undefined): keyof Encoded {
  const accepted = String(acceptEncoding ?? "")
    .split(",")
    .map((part) => part.trim().toLowerCase())
    .filter((part) => !/;\s*q=0(?:\.0*)?$/.test(part))
    .map((part) => part.split(";", 1)[0]);
  if (accepted.includes("br")) return "br";
  return accepted.includes("gzip") ? "gzip" : "identity";
}

function hasIt(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = (ifNoneMatch ?? "").split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  return tags.includes(etag) || tags.includes("*");
}
