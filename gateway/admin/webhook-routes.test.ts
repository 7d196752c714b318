import { expect, test, vi } from "vitest";
import { EndpointStatus } from "#proto/gatehouse/events/v1/webhook_service.ts";
import type { Principal, Verification } from "#token-client/principal.ts";
import { endpoint } from "../testing/answering-gateway.ts";
import { principalWith, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const PATH = `/admin/webhooks/${endpoint.id}`;
const NEW = { name: "Tickets", url: "https://tickets.example/hook", types: ["gatehouse.user.*"] };
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const program = (...scopes: string[]): Principal => ({
  ...principalWith(""),
  kind: "client",
  userId: "",
  clientId: endpoint.id,
  scopes,
});
const active = (principal: Principal): Verification => ({ kind: "active", principal });
const verdicts: Record<string, Verification> = {
  admin: active(principalWith("ADMIN")),
  auditor: active(principalWith("AUDITOR")),
  reader: active(program("webhooks:read")),
  writer: active(program("webhooks:write")),
  writingAuditor: active(program("webhooks:write", "audit:read")),
};

function start() {
  const webhooks = {
    listEndpoints: vi.fn(async () => ({ endpoints: [endpoint], nextCursor: "" })),
    getEndpoint: vi.fn(async () => ({ endpoint })),
    createEndpoint: vi.fn(async () => ({ endpoint, secret: SECRET })),
    changeEndpoint: vi.fn(async () => ({ endpoint })),
    deleteEndpoint: vi.fn(async () => ({})),
    rotateSecret: vi.fn(async () => ({ endpoint, secret: SECRET })),
    sendTest: vi.fn(async () => ({ httpStatus: 0, problem: "unreachable", durationMs: 12 })),
    replayEvents: vi.fn(async () => ({ endpoint })),
    listDeliveries: vi.fn(async () => ({ deliveries: [], nextCursor: "" })),
  };
  const gateway = testGateway({
    webhooks,
    verifier: {
      verify: (token) => verdicts[token] ?? { kind: "inactive", reason: "invalid" },
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady() {},
      close() {},
    },
  });
  return { ...gateway, webhooks };
}

const CHANGES = [
  { method: "POST", url: "/admin/webhooks", body: NEW, action: "admin.webhooks.create" },
  { method: "PATCH", url: PATH, body: { status: "paused" }, action: "admin.webhooks.update" },
  { method: "DELETE", url: PATH, action: "admin.webhooks.delete" },
  { method: "POST", url: `${PATH}/secret`, action: "admin.webhooks.rotate_secret" },
  { method: "POST", url: `${PATH}/test`, action: "admin.webhooks.test" },
  {
    method: "POST",
    url: `${PATH}/replay`,
    body: { from: [{ log: 0, sequence: 17 }] },
    action: "admin.webhooks.replay",
  },
] as const;
const READINGS = ["/admin/webhooks", PATH, `${PATH}/deliveries`];

test.each([
  ["admin", true, true],
  ["auditor", false, false],
  ["reader", true, false],
  ["writer", false, false],
  ["writingAuditor", false, true],
])(
  "%s: may read: %s, may change: %s, for which one needs to read the log, too",
  async (token, mayRead, mayChange) => {
    const { app, webhooks, entries } = start();
    for (const url of READINGS)
      expect((await send(app, { url, token })).statusCode).toBe(mayRead ? 200 : 403);
    for (const { action, ...call } of CHANGES) {
      const { statusCode } = await send(app, { ...call, token });
      expect([call.url, statusCode]).toEqual([call.url, mayChange ? expect.toSatisfy(isSuccess) : 403]);
      const outcome = mayChange ? "success" : "failure";
      expect(entries.pop()).toMatchObject({ kind: "outcome", action, outcome });
    }
    expect(webhooks.changeEndpoint).toHaveBeenCalledTimes(mayChange ? 1 : 0);
  },
);

const isSuccess = (status: number) => status === 200 || status === 201;

test("readings are noted", async () => {
  const { app, readings } = start();
  for (const url of READINGS) await send(app, { url, token: "admin" });
  expect(readings).toMatchObject([
    { action: "webhook.listed", reason: "limit=50" },
    { action: "webhook.read", resource: endpoint.id },
    { action: "webhook.read", resource: endpoint.id, reason: "limit=50" },
  ]);
});

test.each([
  ["/admin/webhooks", NEW],
  [`${PATH}/secret`, { overlapHours: 0 }],
])("the secret of %s is answered once, not to be cached, and not logged", async (url, body) => {
  const { app, entries, log } = start();
  const made = await send(app, { method: "POST", url, token: "admin", body });
  expect(made.json().data).toMatchObject({ secret: SECRET, webhook: { ownerId: USER_ID } });
  expect(made.headers["cache-control"]).toBe("no-store");
  expect(JSON.stringify(entries) + log()).not.toContain(SECRET);
  const shown = await send(app, { url: PATH, token: "admin" });
  expect(shown.body).not.toContain("whsec_");
});

test("the owner is who makes it, of a program's nobody, or whom the body names", async () => {
  const { app, webhooks } = start();
  const ownerOf = async (token: string, body: object) => {
    await send(app, { method: "POST", url: "/admin/webhooks", token, body });
    const [request] = webhooks.createEndpoint.mock.lastCall as unknown as [{ ownerUserId: string }];
    return request.ownerUserId;
  };
  expect(await ownerOf("admin", NEW)).toBe(USER_ID);
  expect(await ownerOf("writingAuditor", NEW)).toBe("");
  expect(await ownerOf("writingAuditor", { ...NEW, ownerId: endpoint.id })).toBe(endpoint.id);
});

test("what is absent stays, and a change of nothing is refused", async () => {
  const { app, webhooks } = start();
  const change = (body: object) => send(app, { method: "PATCH", url: PATH, token: "admin", body });
  expect((await change({ status: "active" })).statusCode).toBe(200);
  const status = EndpointStatus.ACTIVE;
  expect(webhooks.changeEndpoint).toHaveBeenLastCalledWith(
    { endpointId: endpoint.id, name: "", url: "", types: [], ownerUserId: "", status },
    expect.anything(),
  );
  expect((await change({ types: ["gatehouse.user.*"] })).statusCode).toBe(200);
  expect(webhooks.changeEndpoint).toHaveBeenLastCalledWith(
    expect.objectContaining({ types: ["gatehouse.user.*"], status: EndpointStatus.UNSPECIFIED }),
    expect.anything(),
  );
  for (const body of [{}, { types: [] }, { status: "gone" }, { secret: "mine" }])
    expect((await change(body)).statusCode).toBe(400);
});

test.each([
  [undefined, 24],
  [{}, 24],
  [{ overlapHours: 0 }, 0],
  [{ overlapHours: 168 }, 168],
])("a new secret with the body %j: the former one signs for %d hours more", async (body, overlapHours) => {
  const { app, webhooks } = start();
  const answer = await send(app, { method: "POST", url: `${PATH}/secret`, token: "admin", body });
  expect(answer.statusCode).toBe(200);
  expect(webhooks.rotateSecret).toHaveBeenCalledWith(
    { endpointId: endpoint.id, overlapHours },
    expect.anything(),
  );
});

test.each([
  ["secret", { overlapHours: 169 }],
  ["replay", { from: [] }],
  ["replay", { from: [{ log: 0, sequence: 0 }] }],
  ["replay", { from: [{ log: 256, sequence: 1 }] }],
])("%s with %j is refused", async (what, body) => {
  const { app } = start();
  const answer = await send(app, { method: "POST", url: `${PATH}/${what}`, token: "admin", body });
  expect(answer.statusCode).toBe(400);
});

test("a test says what came of it", async () => {
  const { app } = start();
  const answer = await send(app, { method: "POST", url: `${PATH}/test`, token: "admin" });
  expect(answer.json()).toMatchObject({
    data: { httpStatus: null, problem: "unreachable", durationMs: 12 },
    message: "The test was not delivered.",
  });
});
