import type { HTTPMethods } from "fastify";
import { DomainError } from "../../service-kit/errors.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { type ForwardDeps, forward } from "./forward.ts";
import type { WebSockets } from "./websocket.ts";

/** What the routes file may know, and HEAD and OPTIONS, which come with them. */
const METHODS: HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export interface ProxyDeps extends ForwardDeps {
  webSockets: WebSockets;
}

/**
 * One route for all that the routes file forwards, which may change while requests are served: which of its routes
 * takes a request was decided by the first hook. Bodies are not read here.
 */
export function registerProxyRoutes(app: GatewayApp, deps: ProxyDeps): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.route({
    method: METHODS,
    url: "/*",
    config: { isProxy: true },
    handler(request, reply) {
      const { target, upgrade } = request;
      // What has no route was answered by a hook.
      if (target === null) throw new DomainError("not_found");
      if (upgrade !== null) deps.webSockets.connect(request, reply, target, upgrade);
      else forward(request, reply, target, deps);
    },
  });
}
