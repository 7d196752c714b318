import type { FastifyReply, FastifyRequest } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import type { Forwarder } from "./forward.ts";
import type { GatewayApp } from "./request-state.ts";
import type { UpstreamRoute } from "./routes-file.ts";

/** An upstream API and the way to it. */
export interface Upstream {
  route: UpstreamRoute;
  forwarder: Forwarder;
}

/**
 * Routes for upstream APIs: each prefix, and everything below it. Bodies are not read here.
 *
 * @param version path prefix that the upstream does not know: `/v1`, or nothing.
 */
export function registerProxyRoutes(app: GatewayApp, upstreams: readonly Upstream[], version: string): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", (_request, _payload, done) => done(null));
  for (const upstream of upstreams) registerUpstream(app, upstream, version);
}

function registerUpstream(app: GatewayApp, { route, forwarder }: Upstream, version: string): void {
  const { prefix } = route;
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    const url = request.raw.url ?? "";
    // The router decodes; what is forwarded is the text itself, so the text itself must be below the prefix.
    if (!isBelow(url, version + prefix)) throw new DomainError("not_found");
    return forwarder.forward(request, reply, url.slice(version.length));
  };
  for (const [method, policy] of Object.entries(route.methods)) {
    if (policy === undefined) continue;
    const { roles, action } = policy;
    const config = { auth: { roles }, ...(action !== undefined && { action }) };
    for (const url of [prefix, `${prefix}/*`]) app.route({ method, url, config, handler });
  }
}

function isBelow(url: string, prefix: string): boolean {
  if (!url.startsWith(prefix)) return false;
  const next = url[prefix.length];
  return next === undefined || next === "/" || next === "?";
}
