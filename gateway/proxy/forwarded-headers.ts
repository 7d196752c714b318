import { isIP } from "node:net";
import type { FastifyRequest } from "fastify";
import { clientIp, plainAddress } from "../edge/request/caller.ts";
import type { ProxyTarget } from "../routing/proxy-table.ts";
import { cutPrefix } from "./public-references.ts";

/** What the gateway is called in `Via`. */
const PSEUDONYM = "gatehouse";
/** Other values of `Forwarded` are quoted (RFC 7239 §4). */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/;

/**
 * How the call came to the gateway. Nothing is a client's own word: addresses before the client's, which a trusted proxy may
 * have passed on, are left out. @returns names and values in turn. @see RFC 9110 §7.6.3, RFC 7239.
 */
export function forwardedHeaders(request: FastifyRequest, target: ProxyTarget): string[] {
  const { headers, protocol, raw } = request;
  const via = `${raw.httpVersion} ${PSEUDONYM}`;
  const made = ["via", headers.via === undefined ? via : `${headers.via}, ${via}`];
  if (!target.route.forwarded) return made;
  const addresses = addressesOf(request);
  const scheme = protocol === "https" ? "https" : "http";
  const { host = "" } = headers;
  const [client, ...proxies] = addresses.map((address) => `for=${quoted(nodeOf(address))}`);
  const first = [client, `host=${quoted(host)}`, `proto=${scheme}`].join(";");
  made.push("x-forwarded-for", addresses.join(", "), "x-forwarded-host", host);
  made.push("x-forwarded-proto", scheme, "forwarded", [first, ...proxies].join(", "));
  const cut = cutPrefix(target);
  if (cut !== "") made.push("x-forwarded-prefix", cut);
  return made;
}

/** The client's, then those of trusted proxies. */
function addressesOf(request: FastifyRequest): string[] {
  const client = clientIp(request);
  if (request.headers["x-forwarded-for"] === undefined) return [client];
  const [first, ...proxies] = (request.ips ?? []).map(plainAddress).reverse();
  return first === client ? [client, ...proxies] : [client];
}

/** RFC 7239 §6. */
function nodeOf(address: string): string {
  return isIP(address) === 6 ? `[${address}]` : address;
}

function quoted(value: string): string {
  return TOKEN.test(value) ? value : `"${value}"`;
}
