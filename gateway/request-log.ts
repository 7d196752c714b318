import type { FastifyReply, FastifyRequest } from "fastify";
import { traceIdOf } from "../service-kit/call-context.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { clientIp } from "./client-ip.ts";

/** Writes the one log line of a request, field by field, and counts it. Never a header, a body or a raw path. */
export function createRequestLog(logger: Logger, metrics: Metrics) {
  const duration = metrics.histogram("gatehouse_http_request_seconds", "Duration of requests from clients.", [
    "method",
    "route",
    "status",
  ]);
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const route = routeOf(request);
    const durationMs = performance.now() - request.startedMs;
    duration.observe({ method: request.method, route, status: reply.statusCode }, durationMs / 1_000);
    logger.info(
      {
        requestId: request.id,
        traceId: traceIdOf(request.call),
        method: request.method,
        route,
        status: reply.statusCode,
        errorCode: request.errorCode ?? undefined,
        durationMs: Math.round(durationMs * 1_000) / 1_000,
        clientIp: clientIp(request),
        userId: request.principal?.userId,
        // The answer did not reach the client completely.
        aborted: reply.raw.writableFinished ? undefined : true,
      },
      "request",
    );
  };
}

/** The route's pattern, never the path as the client wrote it. */
export function routeOf(request: FastifyRequest): string {
  return request.is404 ? "(none)" : (request.routeOptions.url ?? "(none)");
}
