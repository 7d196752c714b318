import type { FastifyReply, FastifyRequest, HTTPMethods } from "fastify";
import type { z } from "zod";
import type { RouteDocs } from "../routing/route-docs.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";
import type { FailurePage, GatewayApp } from "./request-state.ts";

/** A part without a schema must be absent. */
interface RouteSchema {
  params?: z.ZodType;
  querystring?: z.ZodType;
  body?: z.ZodType;
}

type Output<T> = T extends z.ZodType ? z.output<T> : unknown;

type ValidRequest<S extends RouteSchema> = FastifyRequest & {
  params: Output<S["params"]>;
  query: Output<S["querystring"]>;
  body: Output<S["body"]>;
};

type Hook = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

export interface Route<S extends RouteSchema> extends Omit<RouteDocs, "operationId" | "tag"> {
  policy: RoutePolicy;
  schema?: S;
  failurePage?: FailurePage;
  options?: { exposeHeadRoute?: boolean; onRequest?: Hook; preValidation?: Hook };
  handler(request: ValidRequest<S>, reply: FastifyReply): unknown;
}

export function routeIn(app: GatewayApp, tag: RouteDocs["tag"]) {
  return <S extends RouteSchema>(operationId: string, method: HTTPMethods, url: string, route: Route<S>) => {
    const { policy, schema = {}, failurePage, options, handler, ...docs } = route;
    const config = { ...policy, ...(failurePage && { failurePage }), docs: { operationId, tag, ...docs } };
    app.route({
      ...options,
      method,
      url,
      schema,
      config,
      handler: (request, reply) => handler(request as ValidRequest<S>, reply),
    });
  };
}
