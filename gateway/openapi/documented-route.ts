import type { FastifyContextConfig, RouteOptions } from "fastify";
import type { z } from "zod";
import type { RouteAuth } from "../../token-client/route-auth.ts";
import type { RouteDocs } from "../routing/route-docs.ts";

/** A route as it was registered, with what the document says of it. */
export interface DocumentedRoute {
  method: string;
  /** As the router knows it: `/auth/sessions/:id`. */
  url: string;
  config: FastifyContextConfig & { auth: RouteAuth; docs: RouteDocs };
  schema: { body?: z.ZodType; querystring?: z.ZodType; params?: z.ZodType };
}

/** @throws if the route says nothing about itself. */
export function documentedRoute(route: RouteOptions): DocumentedRoute {
  const { config, schema = {} } = route;
  const name = `${route.method} ${route.url}`;
  if (config?.auth === undefined || config.docs === undefined)
    throw new Error(`${name} does not say what it answers (config.docs)`);
  const { auth, docs } = config;
  // The validator takes nothing but zod schemas, so that they are.
  return {
    method: [route.method].flat().join(),
    url: route.url,
    config: { ...config, auth, docs },
    schema: schema as DocumentedRoute["schema"],
  };
}
