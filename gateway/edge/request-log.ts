import type { FastifyReply, FastifyRequest } from "fastify";
import type { Histogram } from "prom-client";
import { traceIdOf } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { callerIdOf } from "#token-client/principal.ts";
import { clientIp } from "./request/caller.ts";

/** Writes no headers, bodies or raw paths. */
export function createRequestLog(logger: Logger, metrics: Metrics) {
  const duration = metrics.histogram("gatehouse_http_request_seconds", "Duration of requests from clients.", [
    "method",
    "route",
    "status",
  ]);
  // Caches label look-ups.
  const series = new Map<string, Map<string, Map<number, Pick<Histogram.Internal<string>, "observe">>>>();
  const seriesOf = (method: string, route: string, status: number) => {
    const byMethod = kept(series, route, () => new Map());
    const byStatus = kept(byMethod, method, () => new Map());
    return kept(byStatus, status, () => duration.labels({ method, route, status: String(status) }));
  };
  // Redaction would cost as much as the rest of the line.
  const line = logger.child({}, { redact: [] });
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const { state } = request;
    const route = state.policy?.pattern ?? "(none)";
    const durationMs = performance.now() - state.startedMs;
    seriesOf(request.method, route, reply.statusCode).observe(durationMs / 1_000);
    line.info(
      {
        requestId: request.id,
        traceId: traceIdOf(state.call),
        method: request.method,
        route,
        status: reply.statusCode,
        errorCode: state.errorCode ?? undefined,
        durationMs: Math.round(durationMs * 1_000) / 1_000,
        clientIp: clientIp(request),
        userId: state.access === null ? undefined : callerIdOf(state.access.principal),
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
