import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newCallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import { transaction } from "../service-kit/postgres.ts";
import type { RpcContext } from "../service-kit/rpc-server.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "../tests/support/token-service.ts";
import { cleanUp } from "./housekeeping.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeSession, revokeUserSessions } from "./revoke-session.ts";
import { createSessionRpc } from "./session-rpc.ts";
import { insertSession, listLiveSessions, lockSession, lockUser } from "./session-store.ts";
import { verifyToken } from "./verify-token.ts";

let database: TestDatabase;
let replica: TokenReplica;

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
});

afterAll(async () => {
  replica.stop();
  await database.drop();
});

const liveOf = (userId: string) => listLiveSessions(database.sql, userId);

test("the 21st session of a user ends the oldest, and nobody else's", async () => {
  const userId = randomUUID();
  const bystander = await logIn(replica, randomUUID());
  const pairs = [];
  for (let index = 0; index < 21; index += 1) pairs.push(await logIn(replica, userId));
  await replica.deps.revocations.refresh();

  const verdicts = await Promise.all(pairs.map(({ accessToken }) => verifyToken(replica.deps, accessToken)));
  expect(verdicts.map(({ active }) => active)).toEqual([false, ...Array.from({ length: 20 }, () => true)]);
  expect(await verifyToken(replica.deps, bystander.accessToken)).toMatchObject({ active: true });
});

test("logins that race never leave more sessions than allowed", async () => {
  const userId = randomUUID();
  await Promise.all(Array.from({ length: 40 }, () => logIn(replica, userId)));
  expect(await liveOf(userId)).toHaveLength(20);
});

test("ending the others leaves the present one; ending all leaves none; a login meanwhile is not lost between", async () => {
  const userId = randomUUID();
  const [kept] = await Promise.all([logIn(replica, userId), logIn(replica, userId), logIn(replica, userId)]);

  const others = await revokeUserSessions(replica.deps, {
    userId,
    exceptSessionId: kept.sessionId,
    reason: "logout",
  });
  expect(others.sessionIds).toHaveLength(2);
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([kept.sessionId]);

  const all = await revokeUserSessions(replica.deps, { userId, reason: "logout" });
  expect(all.sessionIds).toEqual([kept.sessionId]);
  expect(await liveOf(userId)).toEqual([]);
});

test("a late end spares what the user began a minute after its cause, except for an erased account", async () => {
  const userId = randomUUID();
  const cause = new Date("2026-01-01T00:00:00Z");
  const begun = async (afterMs: number) => {
    const { sessionId } = await logIn(replica, userId);
    const at = new Date(cause.getTime() + afterMs);
    await database.ownerSql`update sessions set created_at = ${at} where id = ${sessionId}`;
    return sessionId;
  };
  const [before, withinTheRoom, after] = [await begun(-1), await begun(59_999), await begun(60_000)];
  const end = { userId, reason: "password_reset", exceptSessionId: "", begunBefore: cause };
  const rpc = createSessionRpc(replica.deps, async () => undefined);
  const late = await rpc.revokeUserSessions(end, newCallContext() as RpcContext);
  expect(late.sessionIds).toEqual([before, withinTheRoom]);
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([after]);

  const account = { ...end, reason: "account_deleted" };
  const erased = await rpc.revokeUserSessions(account, newCallContext() as RpcContext);
  expect(erased.sessionIds).toEqual([after]);
});

test("the end of an account leaves nothing of where it was used from, in sessions that had ended neither", async () => {
  const userId = randomUUID();
  const [ended, live, bystander] = [
    await logIn(replica, userId),
    await logIn(replica, userId),
    await logIn(replica, randomUUID()),
  ];
  await database.ownerSql`update sessions set ip = '192.0.2.1', user_agent = 'curl/8'`;
  await revokeSession(replica.deps, { sessionId: ended.sessionId, userId, reason: "logout" });
  const origins = async () =>
    Object.fromEntries(
      (await database.ownerSql`select id, ip || user_agent as origin from sessions`).map(({ id, origin }) => [
        id,
        origin,
      ]),
    );
  await revokeUserSessions(replica.deps, { userId, reason: "account_deleted" });
  expect(await origins()).toMatchObject({
    [ended.sessionId]: "",
    [live.sessionId]: "",
    [bystander.sessionId]: "192.0.2.1curl/8",
  });

  // A login that was under way, ended by itself after the account.
  const late = await logIn(replica, userId);
  await database.ownerSql`update sessions set ip = '192.0.2.1' where id = ${late.sessionId}`;
  await revokeSession(replica.deps, { sessionId: late.sessionId, userId, reason: "account_deleted" });
  expect((await origins())[late.sessionId]).toBe("");
});

test("a login that is under way when all sessions of its user end is ended with them", async () => {
  const userId = randomUUID();
  const template = await logIn(replica, userId);
  const { sessionId, ending } = await transaction(database.sql, async (tx) => {
    await lockUser(tx, userId);
    const session = await lockSession(tx, template.sessionId);
    if (session === undefined) throw new Error("unreachable");
    // Waits for this transaction; wrapped, because a promise that is returned would be waited for.
    const ending = revokeUserSessions(replica.deps, { userId, reason: "logout" });
    await expect
      .poll(
        async () => {
          const [row] = await database.ownerSql<{ waiting: number }[]>`
            select count(*)::integer as waiting from pg_locks
            where not granted and database = (select oid from pg_database where datname = current_database())
          `;
          return row?.waiting;
        },
        { interval: 5 },
      )
      .toBeGreaterThan(0);
    const sessionId = randomUUID();
    await insertSession(tx, { ...session, id: sessionId });
    return { sessionId, ending: { result: ending } };
  });
  expect((await ending.result).sessionIds).toContain(sessionId);
  expect(await liveOf(userId)).toEqual([]);
});

test("a session that has ended by itself is not listed, and not counted among those allowed", async () => {
  const userId = randomUUID();
  const old = await logIn(replica, userId);
  const young = await logIn(replica, userId);
  await database.ownerSql`update sessions set idle_end = now() - interval '1 second' where id = ${old.sessionId}`;
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([young.sessionId]);
  const { sessionIds } = await revokeUserSessions(replica.deps, { userId, reason: "logout" });
  expect(sessionIds).toEqual([young.sessionId]);
});

test("somebody else's session and one that never was are not found alike", async () => {
  const mine = await logIn(replica, randomUUID());
  const stranger = randomUUID();
  for (const sessionId of [mine.sessionId, randomUUID()]) {
    await expect(
      revokeSession(replica.deps, { sessionId, userId: stranger, reason: "logout" }),
    ).rejects.toMatchObject({
      code: "not_found",
    });
  }
  expect(await verifyToken(replica.deps, mine.accessToken)).toMatchObject({ active: true });
});

test("ending a session twice succeeds, and is one revocation", async () => {
  const userId = randomUUID();
  const { sessionId } = await logIn(replica, userId);
  const first = await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  const second = await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  expect(second).toBe(first);
});

test("a session shows where it was last used, and when", async () => {
  const userId = randomUUID();
  const pair = await logIn(replica, userId);
  await refreshSession(replica.deps, pair.refreshToken, {
    ip: "2001:db8::1",
    userAgent: "phone",
    requestId: "r",
    traceId: "t",
  });
  const [session] = await liveOf(userId);
  expect(session).toMatchObject({ ip: "2001:db8::1", userAgent: "phone", amr: ["pwd"] });
  expect(session?.lastUsedAt.getTime()).toBeGreaterThan(session?.createdAt.getTime() ?? 0);
});

test("a process whose clock is wrong deletes nothing", async () => {
  const { sessionId } = await logIn(replica, randomUUID());
  await database.ownerSql`
    update sessions set idle_end = now() - interval '9 days', created_at = now() - interval '20 days' where id = ${sessionId}
  `;
  const assertClock = () => {
    throw new DomainError("service_unavailable");
  };
  const deps = { ...replica.deps, sql: database.sql };
  await expect(cleanUp({ ...deps, assertClock })).rejects.toMatchObject({ code: "service_unavailable" });
  const left = () => database.sql`select id from sessions where id = ${sessionId}`;
  expect(await left()).toHaveLength(1);
  await cleanUp(deps);
  expect(await left()).toHaveLength(0);
});

test("clean-up removes what has ended, in batches, and waits for no lock", async () => {
  const userId = randomUUID();
  const living = await logIn(replica, userId);
  await database.sql`
    insert into sessions
      (id, user_id, role, amr, auth_time, token_secret, generation, rotated_at, created_at, last_used_at, idle_end,
       absolute_end)
    select gen_random_uuid(), ${userId}, 'USER', '{pwd}', now(), decode(repeat('00', 32), 'hex'), 1, now(),
           now() - interval '9 days', now(), now() - interval '2 days', now()
    from generate_series(1, 2500)
  `;
  const [held] = await database.sql<
    { id: string }[]
  >`select id from sessions where user_id = ${userId} and idle_end < now() limit 1
  `;
  await transaction(database.sql, async (tx) => {
    await tx`select 1 from sessions where id = ${held?.id ?? ""} for update`;
    await cleanUp({ ...replica.deps, sql: database.sql });
  });
  const left = await database.sql<{ id: string }[]>`select id from sessions where user_id = ${userId}`;
  expect(left.map(({ id }) => id).sort()).toEqual([held?.id, living.sessionId].sort());
});
