import { fastifyCookie } from "@fastify/cookie";
import type { FastifyRequest } from "fastify";

const AS_IT_IS = { decode: (value: string) => value };

/** The first of two cookies counts (RFC 6265 §5.4). Empty if absent. */
export function cookieOf({ headers: { cookie = "" } }: FastifyRequest, name: string): string {
  return fastifyCookie.parse(cookie, AS_IT_IS)[name] ?? "";
}
