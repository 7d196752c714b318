import { fastifyCookie } from "@fastify/cookie";
import type { FastifyRequest } from "fastify";

const AS_IT_IS = { decode: (value: string) => value };
/** Also where another server would decode or trim the name. */
const OWN = /gatehouse[-_](?:refresh|bound|device|oauth)/i;

/** All cookies of this name, in their order. Only spaces and tabs are trimmed, as browsers do before they check a prefix. */
export function cookiesOf({ headers: { cookie = "" } }: FastifyRequest, name: string): string[] {
  return cookie.split(";").flatMap((pair) => fastifyCookie.parse(pair, AS_IT_IS)[name] ?? []);
}

/** The first of two cookies counts (RFC 6265 §5.4). Empty if absent. */
export function cookieOf(request: FastifyRequest, name: string): string {
  return cookiesOf(request, name)[0] ?? "";
}

/** @param header of the client. @returns what upstreams may see of it. */
export function withoutOwnCookies(header: string): string {
  if (!OWN.test(header)) return header;
  const others = header.split(";").filter((pair) => !OWN.test(pair));
  return others.join(";").trim();
}

/** @param header `Set-Cookie` of an upstream. */
export function setsOwnCookie(header: string): boolean {
  return OWN.test(header.split(";", 1)[0] ?? "");
}
