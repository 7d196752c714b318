import type { Redis } from "ioredis";
import { expect, test, vi } from "vitest";
import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { SigningKeyState } from "#proto/gatehouse/token/v1/key_service.ts";
import { send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const AT = new Date("2026-03-01T10:00:00Z");
const NOT_THERE = () => Promise.reject(new DomainError("not_found"));

function gateway(overrides: Parameters<typeof testGateway>[0] = {}) {
  const key = { algorithm: "EdDSA", createdAt: AT, activatedAt: undefined, retiredAt: undefined };
  return testGateway({
    keys: {
      listSigningKeys: async () => ({
        keys: [
          { ...key, keyId: "k2", state: SigningKeyState.NEXT },
          { ...key, keyId: "k1", state: SigningKeyState.ACTIVE, activatedAt: AT },
          { ...key, keyId: "k0", state: 99 as SigningKeyState, retiredAt: AT },
        ],
      }),
    },
    users: { getManagedUser: NOT_THERE },
    sessions: { listSessions: async () => ({ sessions: [] }) },
    auditQuery: { getCheckpoint: NOT_THERE },
    webhooks: { listEndpoints: async () => ({ endpoints: [], nextCursor: "" }) },
    ...overrides,
  });
}
const read = ({ app }: ReturnType<typeof gateway>, url: string, token = "admin-token") =>
  send(app, { url, token });

test.each(["/admin/keys", "/admin/health"])("%s needs system:read", async (url) => {
  const built = gateway();
  for (const token of ["user-token", "support-token", "auditor-token"])
    expect((await read(built, url, token)).statusCode).toBe(403);
  expect(built.readings).toEqual([]);
  expect((await read(built, url)).statusCode).toBe(200);
});

test("the keys are shown with their states and times, and the reading is noted", async () => {
  const built = gateway();
  const time = AT.toISOString();
  const key = { algorithm: "EdDSA", createdAt: time, activatedAt: null, retiredAt: null };
  expect((await read(built, "/admin/keys")).json().data.keys).toEqual([
    { ...key, id: "k2", state: "next" },
    { ...key, id: "k1", state: "active", activatedAt: time },
    { ...key, id: "k0", state: "unknown", retiredAt: time },
  ]);
  expect(built.readings).toMatchObject([{ action: "key.listed", actor: { userId: USER_ID, role: "ADMIN" } }]);
});

async function health(built: ReturnType<typeof gateway>) {
  const { services } = (await read(built, "/admin/health")).json().data as {
    services: { name: string; ready: boolean; latencyMs: number }[];
  };
  return Object.fromEntries(services.map(({ name, ready }) => [name, ready]));
}

test("a service is ready that answers, be it that there is nothing", async () => {
  const all = {
    "identity-service": true,
    "token-service": true,
    "audit-service": true,
    "event-service": true,
  };
  expect(await health(gateway())).toEqual(all);
});

test.each([new DomainError("service_unavailable"), new DomainError("internal_error"), new Error("a defect")])(
  "a service that fails with %s is not, and the others are shown",
  async (error) => {
    const built = gateway({ sessions: { listSessions: () => Promise.reject(error) } });
    expect(await health(built)).toEqual({
      "identity-service": true,
      "token-service": false,
      "audit-service": true,
      "event-service": true,
    });
  },
);

test("Redis is shown where this gateway uses it, ready if it runs a script in time", async () => {
  const client = { evalsha: async () => 1 } as unknown as Redis;
  const works: SharedRedis["ask"] = (work) => work(client);
  expect(await health(gateway({ redis: { ask: works } }))).toMatchObject({ redis: true });
  const away = {
    "identity-service": true,
    "token-service": true,
    "audit-service": true,
    "event-service": true,
    redis: false,
  };
  expect(await health(gateway({ redis: { ask: async () => undefined } }))).toEqual(away);
});

test("each service is asked with less time than the call has", async () => {
  const getCheckpoint = vi.fn(async (_request: unknown, _context: CallContext) => NOT_THERE());
  const built = gateway({ auditQuery: { getCheckpoint }, callBudgetMs: 600_000 });
  const beforeMs = Date.now();
  await health(built);
  const { deadlineMs = 0 } = getCheckpoint.mock.lastCall?.[1] ?? {};
  expect(deadlineMs - beforeMs).toBeLessThan(60_000);
});
