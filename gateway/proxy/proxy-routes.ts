import type { HTTPMethods } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import type { ApprovalDemand } from "#routes-file/routes-file.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { type ApprovalServices, passApproval, readApprovedBody } from "./approve-call.ts";
import { type ForwardDeps, forward, type ProxiedCall } from "./forward.ts";
import type { UpstreamTokens } from "./upstream-tokens.ts";
import type { WebSockets } from "./websocket.ts";

/** HEAD and OPTIONS extend the routes file's methods. */
const METHODS: HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export interface ProxyDeps extends ForwardDeps {
  webSockets: WebSockets;
  upstreamTokens: UpstreamTokens;
  identity: ApprovalServices["identity"];
}

/** A catch-all, because routes change at run time. The first hook has chosen the target. */
export function registerProxyRoutes(app: GatewayApp, deps: ProxyDeps): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (request, payload, done) => {
    const { policy, target } = request.state;
    if (policy?.approval === undefined || target === null) done(null);
    else
      readApprovedBody(request, payload, target.route, deps.exchanges).then((body) => done(null, body), done);
  });
  app.route({
    method: METHODS,
    url: "/*",
    config: { isProxy: true },
    handler(request, reply) {
      const { target } = request.state;
      if (target === null) throw new DomainError("not_found");
      const authorization = deps.upstreamTokens.authorizationFor(request, target.route);
      if (!(authorization instanceof Promise)) {
        pass({ request, reply, target, authorization }, deps);
        return;
      }
      authorization
        .then((exchanged) => pass({ request, reply, target, authorization: exchanged }, deps))
        .catch((error: unknown) => reply.send(error));
    },
  });
}

function pass(call: ProxiedCall, deps: ProxyDeps): void {
  const { policy, upgrade } = call.request.state;
  if (upgrade !== null) deps.webSockets.connect(call, upgrade);
  else if (policy?.approval === undefined) forward(call, deps);
  else forwardApproved(call, policy.approval, deps);
}

/** Nothing reaches the upstream before the approval is used. */
function forwardApproved(call: ProxiedCall, demand: ApprovalDemand, deps: ProxyDeps): void {
  const { request, reply, target } = call;
  passApproval(request, { target, demand }, deps)
    .then(() => forward(call, deps))
    .catch((error: unknown) => reply.send(error));
}
