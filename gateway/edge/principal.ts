import type { FastifyRequest } from "fastify";
import type { Principal } from "../../token-client/principal.ts";

/** Who calls, in a handler of a route that is not public. */
export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === null)
    throw new Error(`${request.routeOptions.url} is public and has no principal`);
  return request.principal;
}
