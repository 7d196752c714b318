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

export interface CallSpan {
  /** The parent for nested calls. */
  readonly traceparent: string;
  end(attributes?: Attributes, failure?: string): void;
}

/** @param name a method or route pattern, never an id. */
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

function isExporting(): boolean {
  const provider = trace.getTracerProvider();
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer("") !== undefined;
}

/** Other text may be confidential. */
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
