import { fastifyCookie } from "@fastify/cookie";
import type { FastifyRequest } from "fastify";

const AS_IT_IS = { decode: (value: string) => value };

/**
 * The value of a cookie; empty if the client sent none of this name. The first of two counts (RFC 6265 §5.4). It is parsed
 * only where it is asked for: forwarded calls do not pay for it.
 */
export function cookieOf({ headers: { cookie = "" } }: FastifyRequest, name: string): string {
  return fastifyCookie.parse(cookie, AS_IT_IS)[name] ?? "";
}
