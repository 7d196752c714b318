import type { FastifyContextConfig, RouteOptions } from "fastify";
import type { z } from "zod";
import type { RouteAuth } from "#token-client/route-auth.ts";
import type { RouteDocs } from "../routing/route-docs.ts";

export interface DocumentedRoute {
  method: string;
  /** The router's pattern: `/auth/sessions/:id`. */
  url: string;
  config: FastifyContextConfig & { auth: RouteAuth; docs: RouteDocs };
  schema: { body?: z.ZodType; browserBody?: z.ZodType; querystring?: z.ZodType; params?: z.ZodType };
}

/** @throws if the route has no documentation. */
export function documentedRoute(route: RouteOptions): DocumentedRoute {
  const { config, schema = {} } = route;
  const name = `${route.method} ${route.url}`;
  if (config?.auth === undefined || config.docs === undefined) throw new Error(`${name} has no config.docs`);
  const { auth, docs } = config;
  // The validator accepts only zod schemas.
  return {
    method: [route.method].flat().join(),
    url: route.url,
    config: { ...config, auth, docs },
    schema: schema as DocumentedRoute["schema"],
  };
}
