import type { RouteOptions } from "fastify";
import { z } from "zod";
import { type Cacheable, cacheable, sendCacheable } from "../edge/answers/cacheable.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { validateRequest } from "../edge/request/validate.ts";
import { textLike } from "../routing/fields.ts";
import { CACHE_HEADERS, HTML_TYPE, JSON_TYPE, type RouteDocs, UNCHANGED } from "../routing/route-docs.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";
import { DOCS_CONTENT_SECURITY_POLICY, docsAssets } from "./docs-assets.ts";
import { type DocumentedRoute, documentedRoute } from "./documented-route.ts";
import { createOpenApiDocument } from "./openapi-document.ts";

const policy: RoutePolicy = { auth: "public", limitClass: "document" };
const DocumentAnswer = z.looseObject({ openapi: textLike("3.1.1") });

/** Documents every route registered later. HEAD is part of GET. */
export function noteRoutes(app: GatewayApp, routes: DocumentedRoute[]): void {
  app.addHook("onRoute", (route: RouteOptions) => {
    if (route.method !== "HEAD") routes.push(documentedRoute(route));
  });
}

/** Outside of versions. @param routes complete by the first request. */
export async function registerOpenApiRoutes(app: GatewayApp, routes: DocumentedRoute[]): Promise<void> {
  const { page, files } = await docsAssets();
  let document: Cacheable | undefined;
  app.addHook("preValidation", validateRequest);
  for (const [name, file] of files) {
    app.get(`/docs/${name}`, { config: policy }, async (request, reply) =>
      sendCacheable(request, reply, file),
    );
  }
  app.register(async (scope: GatewayApp) => {
    noteRoutes(scope, routes);
    const route = routeIn(scope, "This document");
    route("getOpenApiDocument", "GET", "/openapi.json", {
      summary: "The API as an OpenAPI 3.1 document",
      policy,
      answers: kept("This document.", JSON_TYPE, DocumentAnswer),
      handler: async (request, reply) => {
        document ??= cacheable(
          JSON.stringify(createOpenApiDocument(routes)),
          "application/json; charset=utf-8",
        );
        return sendCacheable(request, reply, document);
      },
    });
    route("getDocumentationPage", "GET", "/docs", {
      summary: "The API as a page for people",
      policy,
      answers: kept("A page.", HTML_TYPE, textLike("<!doctype html>")),
      handler: async (request, reply) =>
        sendCacheable(request, reply.header("content-security-policy", DOCS_CONTENT_SECURITY_POLICY), page),
    });
  });
}

function kept(description: string, mediaType: string, schema: z.ZodType): RouteDocs["answers"] {
  return { 200: { description, content: { [mediaType]: schema }, headers: CACHE_HEADERS }, 304: UNCHANGED };
}
