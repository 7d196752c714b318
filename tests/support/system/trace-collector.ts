import { once } from "node:events";
import { createServer } from "node:http";

/** A step of a trace, as it was exported. Ids in lower-case hexadecimal; `parentSpanId` is empty for a root. */
export interface CollectedSpan {
  service: string;
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  attributes: Record<string, unknown>;
}

interface ExportRequest {
  resourceSpans: {
    resource: { attributes: KeyValue[] };
    scopeSpans: {
      spans: {
        name: string;
        traceId: string;
        spanId: string;
        parentSpanId?: string;
        attributes: KeyValue[];
      }[];
    }[];
  }[];
}
interface KeyValue {
  key: string;
  value: Record<string, unknown>;
}

/** An OTLP/HTTP collector that keeps what it gets (OTLP 1.5, JSON encoding). @param url of loopback, with a port. */
export async function startTraceCollector(url: string) {
  const spans: CollectedSpan[] = [];
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    bodies.push(text);
    if (request.url === "/v1/traces") spans.push(...spansOf(JSON.parse(text)));
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  server.listen(Number(new URL(url).port), "127.0.0.1");
  await once(server, "listening");
  return {
    spans,
    /** Everything received, as text: for what must not be in it. */
    text: () => bodies.join("\n"),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function spansOf({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId = "", attributes }) => ({
        service: String(valuesOf(resource.attributes)["service.name"]),
        name,
        traceId,
        spanId,
        parentSpanId,
        attributes: valuesOf(attributes),
      })),
    ),
  );
}

function valuesOf(attributes: KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
