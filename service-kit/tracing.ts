import {
  type Attributes,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;

/** One step of a trace: a call served or made. */
export interface CallSpan {
  /** For what happens within this step, here or in the next process. */
  readonly traceparent: string;
  /** @param failure code of what went wrong; absent if nothing did. */
  end(attributes?: Attributes, failure?: string): void;
}

/**
 * Begins a step within the one that `traceparent` names. Without an exporter (`startTraceExport`) nothing is kept and the
 * trace passes through as it came.
 *
 * @param traceparent well-formed, as a `CallContext` has it (W3C Trace Context §3.2).
 * @param name of bounded variety: a method, a route pattern; never an id.
 */
export function startSpan(
  kind: keyof typeof KINDS,
  name: string,
  traceparent: string,
  attributes: Attributes = {},
): CallSpan {
  if (!isExporting()) return { traceparent, end: doNothing };
  const parent = trace.setSpanContext(ROOT_CONTEXT, {
    traceId: traceparent.slice(3, 35),
    spanId: traceparent.slice(36, 52),
    traceFlags: Number.parseInt(traceparent.slice(53, 55), 16),
    isRemote: true,
  });
  const span = trace.getTracer("gatehouse").startSpan(name, { kind: KINDS[kind], attributes }, parent);
  return { traceparent: traceparentOf(span), end: (more, failure) => endSpan(span, more, failure) };
}

function doNothing(): void {}

/** Whether `startTraceExport` has put something behind the API: without it a span would be made for nobody. */
function isExporting(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("") !== undefined;
}

/** The code of an expected failure. Nothing of an unexpected one's text: it may hold what no trace may. */
export function failureOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : "internal_error";
}

function endSpan(span: Span, attributes: Attributes = {}, failure?: string): void {
  span.setAttributes(attributes);
  if (failure !== undefined) {
    span.setAttribute("error.type", failure);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}
