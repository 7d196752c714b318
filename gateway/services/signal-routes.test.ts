import { randomUUID } from "node:crypto";
import { expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { StreamStatus } from "#proto/gatehouse/events/v1/signal_service.ts";
import type { Principal, Verification } from "#token-client/principal.ts";
import { stream } from "../testing/answering-gateway.ts";
import { principalWith, send, testGateway } from "../testing/test-gateway.ts";

const CLIENT = stream.clientId;
const PUSH = { method: "urn:ietf:rfc:8935", endpoint_url: stream.pushUrl };
const STREAMS = "/ssf/streams";
const OWN = `${STREAMS}?stream_id=${stream.id}`;
const POLL = `${STREAMS}/${stream.id}/poll`;
const JTI = "0199a000-0000-7000-8000-00000000000d";

const program = (...scopes: string[]): Principal => ({
  ...principalWith(""),
  ...{ kind: "client", userId: "", clientId: CLIENT, scopes },
});
const active = (principal: Principal): Verification => ({ kind: "active", principal });
const verdicts: Record<string, Verification> = {
  receiver: active(program("signals:receive")),
  other: active(program("webhooks:write", "audit:read")),
  admin: active(principalWith("ADMIN")),
};

function start(found: typeof stream | null = stream) {
  const signals = {
    getStream: vi.fn(async () => {
      if (found === null) throw new DomainError("not_found");
      return { stream: found };
    }),
    createStream: vi.fn(async () => ({ stream })),
    changeStream: vi.fn(async () => ({ stream })),
    deleteStream: vi.fn(async () => ({})),
    setStreamStatus: vi.fn(async () => ({ stream: { ...stream, status: StreamStatus.DISABLED } })),
    verifyStream: vi.fn(async () => ({})),
    pollStream: vi.fn(async () => ({ tokens: [{ jti: JTI, token: "e30.e30.AA" }], moreAvailable: false })),
  };
  const gateway = testGateway({
    signals,
    verifier: {
      verify: (token) => verdicts[token] ?? { kind: "inactive", reason: "invalid" },
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady() {},
      close() {},
    },
  });
  return { ...gateway, signals };
}

const EACH = [
  { method: "POST", url: STREAMS, body: { delivery: PUSH } },
  { method: "GET", url: STREAMS },
  { method: "GET", url: OWN },
  { method: "PATCH", url: STREAMS, body: { stream_id: stream.id } },
  { method: "PUT", url: STREAMS, body: { stream_id: stream.id } },
  { method: "GET", url: `${STREAMS}/status?stream_id=${stream.id}` },
  { method: "POST", url: `${STREAMS}/status`, body: { stream_id: stream.id, status: "paused" } },
  { method: "POST", url: `${STREAMS}/verify`, body: { stream_id: stream.id } },
  { method: "POST", url: POLL, body: {} },
  { method: "DELETE", url: OWN },
] as const;

test.each(EACH)("$method $url is for clients with the permission, and not for users", async (call) => {
  const { app } = start();
  for (const token of ["other", "admin"]) expect((await send(app, { ...call, token })).statusCode).toBe(403);
  expect((await send(app, call)).statusCode).toBe(401);
  expect((await send(app, { ...call, token: "receiver" })).statusCode).toBeLessThan(300);
});

test("the client of a call is the one of its token", async () => {
  const { app, signals } = start();
  for (const call of EACH) await send(app, { ...call, token: "receiver" });
  const requests = Object.values(signals).flatMap(
    ({ mock }) => mock.calls as unknown as [{ clientId: string }][],
  );
  expect(new Set(requests.map(([{ clientId }]) => clientId))).toEqual(new Set([CLIENT]));
});

test("a stream has the form of the specification, and its header is not shown", async () => {
  const { app, signals } = start();
  const delivery = { ...PUSH, authorization_header: "Bearer secret" };
  const body = {
    delivery,
    events_requested: stream.eventsRequested,
    description: "Fraud detection",
    format: "ignored",
  };
  const made = await send(app, { method: "POST", url: STREAMS, body, token: "receiver" });
  expect(made.statusCode).toBe(201);
  expect(made.json()).toEqual({
    ...{
      stream_id: stream.id,
      iss: expect.any(String),
      aud: CLIENT,
      delivery: PUSH,
      description: "Fraud detection",
    },
    events_requested: stream.eventsRequested,
    events_delivered: stream.eventsDelivered,
    events_supported: stream.eventsSupported,
  });
  expect(signals.createStream.mock.calls.flat()[0]).toMatchObject({
    delivery: { pushUrl: stream.pushUrl, authorizationHeader: "Bearer secret" },
    eventsRequested: stream.eventsRequested,
  });
});

test("a stream that is polled names where", async () => {
  const { app } = start({ ...stream, pushUrl: "" });
  const { delivery } = (await send(app, { url: OWN, token: "receiver" })).json();
  expect(delivery.method).toBe("urn:ietf:rfc:8936");
  expect(new URL(delivery.endpoint_url).pathname).toBe(POLL);
});

test.each(["POST", "PATCH", "PUT"] as const)(
  "%s refuses a push without an address, and takes a poll with one",
  async (method) => {
    const { app, signals } = start();
    const wanted = (delivery: object) =>
      send(app, { method, url: STREAMS, body: { stream_id: stream.id, delivery }, token: "receiver" });
    for (const nothing of [{}, { endpoint_url: "" }]) {
      const answer = await wanted({ method: PUSH.method, ...nothing });
      expect(answer.statusCode).toBe(400);
      expect(answer.json().error).toMatchObject({
        code: "validation_failed",
        details: [expect.objectContaining({ field: "delivery.endpoint_url" })],
      });
    }
    expect([signals.createStream, signals.changeStream].flatMap(({ mock }) => mock.calls)).toEqual([]);
    const given = { method: "urn:ietf:rfc:8936", endpoint_url: POLL, authorization_header: "Bearer secret" };
    expect((await wanted(given)).statusCode).toBeLessThan(300);
    const [sent] = [signals.createStream, signals.changeStream].flatMap(({ mock }) => mock.calls).flat();
    expect(sent).toMatchObject({ delivery: { pushUrl: "", authorizationHeader: undefined } });
  },
);

test("a client without a stream has an empty list, and none by name", async () => {
  const { app } = start(null);
  expect((await send(app, { url: STREAMS, token: "receiver" })).json()).toEqual([]);
  for (const url of [OWN, `${STREAMS}/status?stream_id=${stream.id}`])
    expect((await send(app, { url, token: "receiver" })).statusCode).toBe(404);
});

test("what is polled is by jti, with what was acknowledged and refused before", async () => {
  const { app, signals } = start();
  const body = {
    maxEvents: 5,
    returnImmediately: true,
    ack: [JTI],
    setErrs: { [stream.id]: { err: "invalid_key", description: "" } },
  };
  const answer = await send(app, { method: "POST", url: POLL, body, token: "receiver" });
  expect(answer.json()).toEqual({ sets: { [JTI]: "e30.e30.AA" }, moreAvailable: false });
  expect(signals.pollStream.mock.calls.flat()[0]).toMatchObject({
    streamId: stream.id,
    maxEvents: 5,
    returnImmediately: true,
    acknowledged: [JTI],
    refused: [stream.id],
  });
});

test("all that may wait is acknowledged or refused by one call", async () => {
  const { app, signals } = start();
  const ids = Array.from({ length: 1_000 }, () => randomUUID());
  const refused = { err: "invalid_key", description: "The key of the token is not one that is known here." };
  const setErrs = Object.fromEntries(ids.map((id) => [id, refused]));
  const call = { method: "POST", url: POLL, token: "receiver" } as const;
  expect((await send(app, { ...call, body: { ack: ids, setErrs } })).statusCode).toBe(200);
  expect(signals.pollStream.mock.calls.flat()[0]).toMatchObject({ acknowledged: ids, refused: ids });
  expect((await send(app, { ...call, body: { ack: [...ids, JTI] } })).statusCode).toBe(400);
});

test("the metadata names every endpoint", async () => {
  const { app } = start();
  const answer = await send(app, { url: "/.well-known/ssf-configuration" });
  expect(answer.json()).toMatchObject({
    ...{
      spec_version: "1_0",
      default_subjects: "ALL",
      authorization_schemes: [{ spec_urn: "urn:ietf:rfc:6749" }],
    },
    delivery_methods_supported: ["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"],
  });
  const { configuration_endpoint, status_endpoint, verification_endpoint, jwks_uri, issuer } = answer.json();
  expect([configuration_endpoint, status_endpoint, verification_endpoint, jwks_uri]).toEqual(
    ["/ssf/streams", "/ssf/streams/status", "/ssf/streams/verify", "/.well-known/jwks.json"].map(
      (path) => new URL(path, issuer).href,
    ),
  );
});

test("changes are in the audit log, with the client", async () => {
  const { app, entries } = start();
  for (const call of EACH) await send(app, { ...call, token: "receiver" });
  const intents = entries.filter(({ kind }) => kind === "intent").map(({ action }) => action);
  expect(intents).toEqual([
    ...["client.stream.create", "client.stream.update", "client.stream.update", "client.stream.update"],
    ...["client.stream.verify", "client.stream.delete"],
  ]);
});
