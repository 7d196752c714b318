import { trace } from "@opentelemetry/api";
import { withinDeadline } from "../values/call-deadline.ts";
import type { Logger } from "./logger.ts";

export interface TraceExportConfig {
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
  OTEL_TRACES_SAMPLER_ARG: number;
}

const MAX_QUEUED_SPANS = 2_048;
const EXPORT_INTERVAL_MS = 2_000;
const EXPORT_TIMEOUT_MS = 5_000;
const SHUTDOWN_TIMEOUT_MS = 1_000;

export type TraceOrigin =
  /** Samples by trace id and ignores the client's flag. */
  | "edge"
  /** The caller decides. */
  | "inside";

/** Drops spans beyond a bounded queue. @returns a function that flushes and stops. */
export async function startTraceExport(
  name: string,
  origin: TraceOrigin,
  config: TraceExportConfig,
  logger: Logger,
): Promise<(() => Promise<void>) | undefined> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return undefined;
  const [
    { BatchSpanProcessor, ParentBasedSampler, TracerProvider, TraceIdRatioBasedSampler },
    resources,
    otlp,
  ] = await Promise.all([
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/exporter-trace-otlp-http"),
  ]);
  const url = new URL("v1/traces", endpoint.endsWith("/") ? endpoint : `${endpoint}/`).href;
  const exporter = new otlp.OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS });
  const byId = new TraceIdRatioBasedSampler(config.OTEL_TRACES_SAMPLER_ARG);
  const provider = new TracerProvider({
    resource: resources.resourceFromAttributes({ "service.name": name, "service.namespace": "gatehouse" }),
    sampler: origin === "edge" ? byId : new ParentBasedSampler({ root: byId }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: MAX_QUEUED_SPANS,
        scheduledDelayMillis: EXPORT_INTERVAL_MS,
        exportTimeoutMillis: EXPORT_TIMEOUT_MS,
      }),
    ],
  });
  trace.setGlobalTracerProvider(provider);
  logger.info({ url }, "exporting traces");
  // An unresponsive collector must not prevent a clean stop.
  return () => withinDeadline(provider.shutdown(), SHUTDOWN_TIMEOUT_MS);
}
