import type { RouteOptions } from "fastify";
import { z } from "zod";
import { type Encoded, encodedText, sendEncoded } from "../edge/answers/cacheable.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { validateRequest } from "../edge/request/validate.ts";
import { textLike } from "../routing/fields.ts";
import { CACHE_HEADERS, HTML_TYPE, JSON_TYPE, type RouteDocs, UNCHANGED } from "../routing/route-docs.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";
import { type DocsLook, docsPage, docsPolicy } from "./docs-page.ts";
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
export async function registerOpenApiRoutes(
  app: GatewayApp,
  routes: DocumentedRoute[],
  look: DocsLook,
): Promise<void> {
  let document: Encoded | undefined;
  let page: Encoded | undefined;
  const pageHeaders = { "content-security-policy": docsPolicy(look) };
  app.addHook("preValidation", validateRequest);
  app.register(async (scope: GatewayApp) => {
    noteRoutes(scope, routes);
    const route = routeIn(scope, "This document");
    route("getOpenApiDocument", "GET", "/openapi.json", {
      summary: "The API as an OpenAPI 3.1 document",
      policy,
      answers: kept("This document.", JSON_TYPE, DocumentAnswer),
      handler: async (request, reply) => {
        document ??= encodedText(
          JSON.stringify(createOpenApiDocument(routes)),
          "application/json; charset=utf-8",
        );
        return sendEncoded(request, reply, document);
      },
    });
    route("getDocumentationPage", "GET", "/docs", {
      summary: "The API as a page for people",
      policy,
      answers: kept("A page.", HTML_TYPE, textLike("<!doctype html>")),
      handler: async (request, reply) => {
        page ??= encodedText(docsPage(createOpenApiDocument(routes), look), "text/html; charset=utf-8");
        return sendEncoded(request, reply.headers(pageHeaders), page);
      },
    });
  });
}

function kept(description: string, mediaType: string, schema: z.ZodType): RouteDocs["answers"] {
  return { 200: { description, content: { [mediaType]: schema }, headers: CACHE_HEADERS }, 304: UNCHANGED };
}
