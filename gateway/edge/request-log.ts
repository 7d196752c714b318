import type { FastifyReply, FastifyRequest } from "fastify";
import type { Histogram } from "prom-client";
import { traceIdOf } from "../../service-kit/call-context.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { clientIp } from "./caller.ts";

/** Writes no headers, bodies or raw paths. */
export function createRequestLog(logger: Logger, metrics: Metrics) {
  const duration = metrics.histogram("gatehouse_http_request_seconds", "Duration of requests from clients.", [
    "method",
    "route",
    "status",
  ]);
  // Caches label look-ups. Routes, methods and statuses are few.
  const series = new Map<string, Map<string, Map<number, Pick<Histogram.Internal<string>, "observe">>>>();
  const seriesOf = (method: string, route: string, status: number) => {
    const byMethod = kept(series, route, () => new Map());
    const byStatus = kept(byMethod, method, () => new Map());
    return kept(byStatus, status, () => duration.labels({ method, route, status: String(status) }));
  };
  // Fields are chosen explicitly, and redaction would cost as much as the rest of the line.
  const line = logger.child({}, { redact: [] });
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const route = request.policy?.pattern ?? "(none)";
    const durationMs = performance.now() - request.startedMs;
    seriesOf(request.method, route, reply.statusCode).observe(durationMs / 1_000);
    line.info(
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
        // The response was not sent completely.
        aborted: reply.raw.writableFinished ? undefined : true,
      },
      "request",
    );
  };
}

function kept<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
