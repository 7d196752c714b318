import { once } from "node:events";
import { createServer } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";

let collector: Awaited<ReturnType<typeof startTraceCollector>>;
let api: ApiClient;

beforeAll(async () => {
  const { environment, url } = oneSystem();
  collector = await startTraceCollector(environment.OTEL_EXPORTER_OTLP_ENDPOINT ?? "");
  api = apiClient(url);
});

afterAll(() => collector?.close());

const CLIENT_SPAN = "00f067aa0ba902b7";

/** The names from a step up to the client's, each with its process. */
function pathOf(span: CollectedSpan | undefined, spans: CollectedSpan[]): string[] {
  if (span === undefined) return [];
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
  return [`${span.service}: ${span.name}`, ...pathOf(parent, spans)];
}

test("a login is one trace, from the client's own step through the gateway and identity-service to token-service", async () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const { email, password } = await api.newUser();
  const headers = { traceparent: `00-${traceId}-${CLIENT_SPAN}-00` };

  const answer = await api.post("/auth/login", { email, password }, { headers });
  expect(answer.status).toBe(200);

  const ofTrace = () => collector.spans.filter((span) => span.traceId === traceId);
  const issue = () => ofTrace().find((span) => span.service === "token-service");
  const root = () => ofTrace().find((span) => span.parentSpanId === CLIENT_SPAN);
  await expect.poll(() => [issue(), root()].includes(undefined)).toBe(false);
  await expect
    .poll(() => pathOf(issue(), ofTrace()))
    .toEqual([
      "token-service: gatehouse.token.v1.SessionService/IssueSession",
      "identity-service: gatehouse.token.v1.SessionService/IssueSession",
      "identity-service: gatehouse.identity.v1.IdentityService/Login",
      "gateway: gatehouse.identity.v1.IdentityService/Login",
      "gateway: POST /auth/login",
    ]);
  expect(root()?.attributes).toMatchObject({
    "http.request.method": "POST",
    "http.route": "/auth/login",
    "http.response.status_code": 200,
    "gatehouse.request_id": answer.headers.get("x-request-id"),
  });
  expect(collector.text()).not.toContain(email);
  expect(collector.text()).not.toContain(password);
});

test("a collector that is away costs nothing but the traces", async () => {
  collector.close();
  const { accessToken } = await api.newUser();
  expect((await api.get("/auth/me", { token: accessToken })).status).toBe(200);
});

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
