import type { RouteOptions } from "fastify";
import type { GatewayApp } from "../edge/request-state.ts";
import { validateRequest } from "../edge/validate.ts";
import { type Cacheable, cacheable, sendCacheable } from "./cacheable.ts";
import { DOCS_CONTENT_SECURITY_POLICY, loadDocsAssets } from "./docs-assets.ts";
import { type DocumentedRoute, documentedRoute } from "./documented-route.ts";
import { openApiDocs } from "./openapi-docs.ts";
import { createOpenApiDocument } from "./openapi-document.ts";

/** Has the document name every route that is registered in `app` from here on. HEAD goes with GET. */
export function noteRoutes(app: GatewayApp, routes: DocumentedRoute[]): void {
  app.addHook("onRoute", (route: RouteOptions) => {
    if (route.method !== "HEAD") routes.push(documentedRoute(route));
  });
}

/**
 * The API's description, as a document and as a page. Both are outside of versions.
 *
 * @param routes all that the document is to name; complete by the first request.
 */
export async function registerOpenApiRoutes(app: GatewayApp, routes: DocumentedRoute[]): Promise<void> {
  const { page, files } = await loadDocsAssets();
  let document: Cacheable | undefined;
  app.addHook("preValidation", validateRequest);
  for (const [name, file] of files) {
    app.get(`/docs/${name}`, { config: { auth: "public" } }, async (request, reply) =>
      sendCacheable(request, reply, file),
    );
  }
  app.register(async (scope: GatewayApp) => {
    noteRoutes(scope, routes);
    scope.get(
      "/openapi.json",
      { config: { auth: "public", docs: openApiDocs.getOpenApiDocument } },
      async (request, reply) => {
        document ??= cacheable(
          JSON.stringify(createOpenApiDocument(routes)),
          "application/json; charset=utf-8",
        );
        return sendCacheable(request, reply, document);
      },
    );
    scope.get(
      "/docs",
      { config: { auth: "public", docs: openApiDocs.getDocumentationPage } },
      async (request, reply) =>
        sendCacheable(request, reply.header("content-security-policy", DOCS_CONTENT_SECURITY_POLICY), page),
    );
  });
}
