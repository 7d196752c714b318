import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import type { AuditOutcome, AuditRecorder } from "#audit-client/stream/audit-entry.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { GatewayDeps } from "../app.ts";
import {
  account,
  ada,
  completedLogin,
  HOST,
  SESSION_ID,
  send,
  testGateway,
  USER_ID,
} from "../testing/test-gateway.ts";

const body = { email: ada.email, password: "correct horse" };
const call = { method: "POST", url: "/auth/login", body } as const;

function gatewayWithLogin(
  login: GatewayDeps["identity"]["login"],
  overrides: Parameters<typeof testGateway>[0] = {},
) {
  return testGateway({ identity: { login }, ...overrides });
}

function recorderWith(record: AuditRecorder["record"]): AuditRecorder {
  return { record, enqueue: () => undefined };
}

test("a mutating call leaves an intent before the work and an outcome after it", async () => {
  let known: number | undefined;
  const { app, entries } = gatewayWithLogin(async () => {
    known = entries.length;
    return completedLogin();
  });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const headers = { "user-agent": "test/1", traceparent };
  const response = await send(app, { ...call, headers });

  expect(known).toBe(1);
  const [intent, outcome] = entries;
  const shared = {
    callId: intent?.callId,
    clientIp: "127.0.0.1",
    userAgent: "test/1",
    method: "POST",
    route: "/auth/login",
    resource: "",
    action: "auth.login",
    requestId: response.headers["x-request-id"],
    traceId: "0af7651916cd43dd8448eb211c80319c",
  };
  expect(intent).toEqual({ kind: "intent", actor: { claimedEmail: ada.email }, ...shared });
  expect(outcome).toEqual({
    kind: "outcome",
    actor: { claimedEmail: ada.email, userId: USER_ID, role: "USER", sessionId: SESSION_ID },
    ...shared,
    // What happened to an account is found by its id.
    resource: USER_ID,
    outcome: "success",
    httpStatus: 200,
    latencyUs: expect.any(Number),
  });
  expect(JSON.stringify(entries)).not.toMatch(/correct horse|jwt/);
});

test.each<{ error: Error; expected: Partial<AuditOutcome> }>([
  {
    error: new DomainError("invalid_credentials"),
    expected: { outcome: "failure", errorCode: "invalid_credentials", httpStatus: 401 },
  },
  { error: new DomainError("busy"), expected: { outcome: "failure", errorCode: "busy", httpStatus: 503 } },
  // Whether it happened before the connection broke is not known here.
  {
    error: new DomainError("service_unavailable"),
    expected: { outcome: "unknown", errorCode: "service_unavailable", httpStatus: 503 },
  },
  {
    error: new Error("a bug"),
    expected: { outcome: "unknown", errorCode: "internal_error", httpStatus: 500 },
  },
])("a call that fails with $error.message says so", async ({ error, expected }) => {
  const { app, entries } = gatewayWithLogin(() => Promise.reject(error));
  await send(app, call);
  expect(entries).toHaveLength(2);
  expect(entries[1]).toMatchObject(expected);
});

test("what cannot be recorded is not carried out", async () => {
  let isCalled = false;
  const { app } = gatewayWithLogin(
    async () => {
      isCalled = true;
      return completedLogin();
    },
    {
      nextRecorder: () => ({
        record: () => Promise.reject(new DomainError("audit_unavailable")),
        enqueue: () => {
          throw new Error("there is no outcome of what was not begun");
        },
      }),
    },
  );
  const response = await send(app, call);
  expect(response.statusCode).toBe(503);
  expect(response.json().error.code).toBe("audit_unavailable");
  expect(isCalled).toBe(false);
});

test("an answer is held back until its outcome is durable", async () => {
  const isReported = Promise.withResolvers<void>();
  const durable = Promise.withResolvers<void>();
  const { app } = gatewayWithLogin(async () => completedLogin(), {
    nextRecorder: () =>
      recorderWith(async (entry) => {
        if (entry.kind !== "outcome") return;
        isReported.resolve();
        await durable.promise;
      }),
  });
  let isAnswered = false;
  const answer = send(app, call).then((response) => {
    isAnswered = true;
    return response;
  });
  await isReported.promise;
  await new Promise((resolve) => setImmediate(resolve)); // for an answer that does not wait
  expect(isAnswered).toBe(false);
  durable.resolve();
  expect((await answer).statusCode).toBe(200);
});

test("an outcome goes to the recorder of its intent, also if the client has left", async () => {
  const kinds: string[][] = [];
  const isCalled = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<void>();
  const { app } = gatewayWithLogin(
    async () => {
      if (kinds.length === 2) {
        isCalled.resolve();
        await mayEnd.promise;
      }
      return completedLogin();
    },
    {
      nextRecorder: () => {
        const own: string[] = [];
        kinds.push(own);
        return {
          record: async ({ kind }) => void own.push(kind),
          enqueue: ({ kind }) => void own.push(`${kind} in the queue`),
        };
      },
    },
  );
  await send(app, call);
  expect(kinds).toEqual([["intent", "outcome"]]);
  await app.listen({ port: 0, host: "127.0.0.1" });
  const { port } = app.server.address() as AddressInfo;
  const closed = new Promise((resolve) =>
    app.server.once("connection", (connection) => connection.once("close", resolve)),
  );
  const socket = connect({ port, host: "127.0.0.1" });
  const text = JSON.stringify(body);
  socket.write(
    `POST /auth/login HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
  );
  await isCalled.promise;
  socket.destroy();
  await closed;
  mayEnd.resolve();
  await expect.poll(() => kinds[1]).toHaveLength(2);
  expect(kinds).toEqual([
    ["intent", "outcome"],
    ["intent", "outcome in the queue"],
  ]);
});

test("a lost outcome does not fail the answer, and is logged", async () => {
  const { app, log } = gatewayWithLogin(async () => completedLogin(), {
    nextRecorder: () =>
      recorderWith((entry) =>
        entry.kind === "outcome" ? Promise.reject(new DomainError("audit_unavailable")) : Promise.resolve(),
      ),
  });
  expect((await send(app, call)).statusCode).toBe(200);
  expect(log()).toContain("audit outcome lost");
});

test("what is refused before it is carried out leaves no entry, and neither does reading", async () => {
  const { app, entries } = testGateway({
    identity: { getUser: async () => account },
  });
  await send(app, { method: "POST", url: "/auth/logout" });
  await send(app, { method: "POST", url: "/auth/login", body: {} });
  await send(app, { method: "POST", url: "/auth/login", body: "{" });
  await send(app, { method: "POST", url: "/nothing", body: {} });
  await send(app, { url: "/auth/me", token: "user-token" });
  expect(entries).toEqual([]);
});

test("the entry of a caller with a token says who, and names what was acted on", async () => {
  const { app, entries } = testGateway({
    sessions: { revokeSession: async () => ({ sequence: 1 }) },
  });
  await send(app, { method: "DELETE", url: `/v1/auth/sessions/${SESSION_ID}`, token: "admin-token" });
  expect(entries[0]).toMatchObject({
    actor: { userId: USER_ID, role: "ADMIN", sessionId: SESSION_ID },
    action: "auth.session_end",
    resource: SESSION_ID,
    route: "/v1/auth/sessions/:id",
  });
  // One search then finds what happened to an account.
  expect(entries[1]).toMatchObject({ kind: "outcome", action: "auth.session_end", resource: USER_ID });
});
