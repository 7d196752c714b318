import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import { listLiveSessions } from "../rows/session-store.ts";
import { createSessionRpc } from "../session-rpc.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { raiseSession } from "./raise-session.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const ADMIN = { idleS: 900, absoluteS: 28_800, atMost: 3 };
const DEFAULTS = { idleS: 0, absoluteS: 0, atMost: 0 };

let database: TestDatabase;
let replica: TokenReplica;
const clock = { ms: 0 };

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  clock.ms = Date.now();
  replica = await startTokenReplica(database.sql, { clock });
});
beforeEach(() => {
  clock.ms = Date.now();
});
afterAll(async () => {
  replica.stop();
  await database.drop();
});

const context = () => newCallContext({ budgetMs: 60_000 }) as RpcContext;

async function issue(role: string, limits: typeof ADMIN | undefined, userId: string = randomUUID()) {
  const rpc = createSessionRpc(replica.deps, async () => undefined);
  const { tokens } = await rpc.issueSession(
    {
      userId,
      role,
      amr: ["pwd"],
      acr: "urn:gatehouse:acr:1",
      authTime: new Date(clock.ms),
      userAgent: "test",
      ip: "192.0.2.1",
      limits,
      confirmation: undefined,
    },
    context(),
  );
  if (tokens === undefined) throw new Error("no tokens");
  return tokens;
}

async function refresh(refreshToken: string) {
  const rpc = createSessionRpc(replica.deps, async () => undefined);
  const request = { refreshToken, ip: "192.0.2.1", userAgent: "test", confirmation: undefined };
  const { tokens } = await rpc.refreshSession(request, context());
  if (tokens === undefined) throw new Error("no tokens");
  return tokens;
}

function endOf(accessToken: string): number {
  const jws = parseCompactJws(accessToken);
  if (typeof jws === "string") throw new Error(jws);
  return Number(jws.payload.exp) * 1_000;
}

const isAlive = async (accessToken: string) => (await verifyToken(replica.deps, accessToken)).active;
const refused = { code: "refresh_token_invalid" };

test("a session of ADMIN ends 15 minutes after its last refresh, one of USER after 7 days", async () => {
  const [admin, user] = [await issue("ADMIN", ADMIN), await issue("USER", DEFAULTS)];
  clock.ms += 14 * MINUTE_MS;
  const later = await refresh(admin.refreshToken);
  clock.ms += 15 * MINUTE_MS - 1_000;
  const last = await refresh(later.refreshToken);
  clock.ms += 15 * MINUTE_MS;
  await expect(refresh(last.refreshToken)).rejects.toMatchObject(refused);
  clock.ms = Date.now() + 7 * DAY_MS - 10_000;
  const kept = await refresh(user.refreshToken);
  clock.ms += 7 * DAY_MS;
  await expect(refresh(kept.refreshToken)).rejects.toMatchObject(refused);
});

test("a session of ADMIN ends after 8 hours however often it is refreshed, and its tokens with it", async () => {
  const beganMs = clock.ms;
  let tokens = await issue("ADMIN", ADMIN);
  while (clock.ms + 10 * MINUTE_MS < beganMs + 8 * HOUR_MS) {
    clock.ms += 10 * MINUTE_MS;
    tokens = await refresh(tokens.refreshToken);
    expect(endOf(tokens.accessToken)).toBeLessThanOrEqual(beganMs + 8 * HOUR_MS);
  }
  clock.ms = beganMs + 8 * HOUR_MS - MINUTE_MS;
  const proof = { sessionId: tokens.sessionId, userId: tokens.userId, acr: 1, amr: ["pwd"] } as const;
  const [refreshed, raised] = [await refresh(tokens.refreshToken), await raiseSession(replica.deps, proof)];
  for (const { accessToken } of [refreshed, raised]) {
    expect(endOf(accessToken)).toBeLessThanOrEqual(beganMs + 8 * HOUR_MS);
    expect(await isAlive(accessToken)).toBe(true);
  }
  // Five seconds are the tolerated difference of two clocks.
  clock.ms = beganMs + 8 * HOUR_MS + 6_000;
  expect(await isAlive(refreshed.accessToken)).toBe(false);
  expect(await isAlive(raised.accessToken)).toBe(false);
  await expect(refresh(refreshed.refreshToken)).rejects.toMatchObject(refused);
});

test("a client that refreshes only when its token has expired keeps a session that rests for 15 minutes", async () => {
  let tokens = await issue("ADMIN", ADMIN);
  for (let times = 0; times < 4; times += 1) {
    clock.ms = endOf(tokens.accessToken) + 6_000;
    expect(await isAlive(tokens.accessToken)).toBe(false);
    tokens = await refresh(tokens.refreshToken);
  }
});

test("a fourth session of ADMIN ends the oldest; others have the service's number", async () => {
  const [adminId, userId] = [randomUUID(), randomUUID()];
  const sessions = [];
  for (let count = 0; count < 4; count += 1) {
    sessions.push(await issue("ADMIN", ADMIN, adminId));
    await issue("USER", undefined, userId);
  }
  const live = (await listLiveSessions(replica.deps.sql, adminId)).map(({ id }) => id);
  expect(live.sort()).toEqual(
    sessions
      .slice(1)
      .map(({ sessionId }) => sessionId)
      .sort(),
  );
  expect(await listLiveSessions(replica.deps.sql, userId)).toHaveLength(4);
});

test("no role rests longer than the service allows, for which its keys are kept", async () => {
  const tokens = await issue("USER", { ...DEFAULTS, idleS: 30 * 86_400 });
  clock.ms += 7 * DAY_MS;
  await expect(refresh(tokens.refreshToken)).rejects.toMatchObject(refused);
});

test.each([{ idleS: 59 }, { absoluteS: 31_536_001 }, { atMost: 21 }])(
  "the limits %j are refused",
  async (limits) => {
    await expect(issue("USER", { ...DEFAULTS, ...limits })).rejects.toMatchObject({
      code: "validation_failed",
    });
  },
);
