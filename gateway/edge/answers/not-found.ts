import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import type { KnownPaths } from "../../routing/known-paths.ts";
import { preflightHeaders } from "./cors.ts";
import { HTTP_NO_CONTENT } from "./http-errors.ts";

export function createNotFoundHandler(paths: KnownPaths) {
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const [path = ""] = (request.raw.url ?? "").split("?", 1);
    const methods = request.state.target?.route.allow ?? paths.methodsOf(path);
    if (methods.length === 0) throw new DomainError("not_found");
    // Path and method exist, so the router refused an overlong parameter.
    if (request.state.target === null && methods.includes(request.method))
      throw new DomainError("uri_too_long");
    reply.header("allow", [...methods, "OPTIONS"].join(", "));
    if (request.method !== "OPTIONS") throw new DomainError("method_not_allowed");
    return reply
      .headers(preflightHeaders(request, methods, paths.cookiesOf(path) === "session"))
      .header("cache-control", "no-store")
      .code(HTTP_NO_CONTENT)
      .send();
  };
}
