import type { HTTPMethods } from "fastify";
import { DomainError } from "../../service-kit/errors.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { type ForwardDeps, forward } from "./forward.ts";
import type { WebSockets } from "./websocket.ts";

/** HEAD and OPTIONS are added to the methods of the routes file. */
const METHODS: HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export interface ProxyDeps extends ForwardDeps {
  webSockets: WebSockets;
}

/** One catch-all route, because routes change at run time. The first hook has chosen the target. */
export function registerProxyRoutes(app: GatewayApp, deps: ProxyDeps): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  app.route({
    method: METHODS,
    url: "/*",
    config: { isProxy: true },
    handler(request, reply) {
      const { target, upgrade } = request;
      if (target === null) throw new DomainError("not_found");
      if (upgrade !== null) deps.webSockets.connect(request, reply, target, upgrade);
      else forward(request, reply, target, deps);
    },
  });
}
