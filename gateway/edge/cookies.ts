import type { FastifyRequest } from "fastify";

/** The value of a cookie; empty if the client sent none of this name. The first of two counts (RFC 6265 §5.4). */
export function cookieOf(request: FastifyRequest, wanted: string): string {
  for (const pair of (request.headers.cookie ?? "").split(";")) {
    const [name, value = ""] = pair.trim().split("=", 2);
    if (name === wanted) return value;
  }
  return "";
}
