import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { type CollectedSpan, startTraceCollector } from "../../support/system/trace-collector.ts";

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
