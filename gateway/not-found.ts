import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import { HTTP_NO_CONTENT } from "./http-errors.ts";
import type { KnownPaths } from "./known-paths.ts";

/**
 * Answers what no route took: `OPTIONS` of a path that exists with its methods, another method with 405,
 * everything else with 404.
 */
export function createNotFoundHandler(paths: KnownPaths) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const [path = ""] = (request.raw.url ?? "").split("?", 1);
    const methods = paths.methodsOf(path);
    if (methods.length === 0) throw new DomainError("not_found");
    reply.header("allow", [...methods, "OPTIONS"].join(", "));
    if (request.method !== "OPTIONS") throw new DomainError("method_not_allowed");
    return reply.header("cache-control", "no-store").code(HTTP_NO_CONTENT).send();
  };
}
