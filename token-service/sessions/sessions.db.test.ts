import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { withTurn } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import {
  insertSession,
  listLiveSessions,
  lockSession,
  lockUser,
  markLeavesSeen,
  markSessionsRevoked,
} from "../rows/session-store.ts";
import { createSessionRpc } from "../session-rpc.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { cleanUp } from "./housekeeping.ts";
import { issueSession } from "./issue-session.ts";
import { proveRefreshToken } from "./prove-refresh-token.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeSession, revokeUserSessions } from "./revoke-session.ts";

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

test("the 21st session of a user ends the user's oldest, and no session of others", async () => {
  const userId = randomUUID();
  const bystander = await logIn(replica, randomUUID());
  const pairs = [];
  for (let index = 0; index < 21; index += 1) pairs.push(await logIn(replica, userId));
  await replica.deps.revocations.refresh();

  const verdicts = await Promise.all(pairs.map(({ accessToken }) => verifyToken(replica.deps, accessToken)));
  expect(verdicts.map(({ active }) => active)).toEqual([false, ...Array.from({ length: 20 }, () => true)]);
  expect(await verifyToken(replica.deps, bystander.accessToken)).toMatchObject({ active: true });
});

test("a login that was proven more than 5 s ahead of this service's clock begins no session", async () => {
  const userId = randomUUID();
  const now = new Date(Math.floor(Date.now() / 1_000) * 1_000);
  const provenAt = (ms: number) =>
    issueSession(
      { ...replica.deps, now: () => now },
      { ...NEW, userId, authTime: new Date(now.getTime() + ms) },
    );
  await expect(provenAt(6_000)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await liveOf(userId)).toEqual([]);
  // A provider's answer or a change of password may follow the first factor by minutes.
  for (const ms of [5_999, -600_000]) expect(await provenAt(ms)).toMatchObject({ userId });
});

test("logins that race never leave more sessions than allowed", async () => {
  const userId = randomUUID();
  const racing = await Promise.allSettled(Array.from({ length: 40 }, () => logIn(replica, userId)));
  // On a slow machine the last of them wait too long for their turn.
  for (const { status } of racing) if (status === "rejected") await logIn(replica, userId);
  expect(await liveOf(userId)).toHaveLength(20);
});

test("one user's logins and ends of sessions hold one connection, and proofs of them wait for no lock", async () => {
  const userId = randomUUID();
  const pair = await logIn(replica, userId);
  const { sessionId, refreshToken } = pair;
  const end = { userId, sessionId, reason: "logout" };
  const waiting: Promise<unknown>[] = [];
  // The test's pool has three connections.
  await database.ownerSql.pool.hold((connection) =>
    connection.driver.begin(async (tx) => {
      await lockUser(tx, userId);
      await lockSession(tx, sessionId);
      for (let call = 0; call < 10; call += 1) {
        waiting.push(
          logIn(replica, userId),
          withTurn(userId, () => revokeSession(replica.deps, end)),
          withTurn(userId, () => revokeUserSessions(replica.deps, end)),
        );
      }
      await expect.poll(() => database.waitingForLocks()).toBe(1);
      expect(await proveRefreshToken(replica.deps, refreshToken)).toEqual({ userId, sessionId });
      expect((await logIn(replica, randomUUID())).refreshToken).not.toBe("");
      expect(await database.waitingForLocks()).toBe(1);
    }),
  );
  // On a slow machine some of them have waited too long for their turn.
  const refused = (await Promise.allSettled(waiting)).filter(({ status }) => status === "rejected");
  expect(refused).toEqual(
    refused.map(() => ({
      status: "rejected",
      reason: expect.objectContaining({ code: "service_unavailable" }),
    })),
  );
});

test("a user who fills the own places keeps nobody else from ending the sessions", async () => {
  const userId = randomUUID();
  const { sessionId } = await logIn(replica, userId);
  const end = { userId, sessionId, reason: "admin_revoked" };
  const administrator = randomUUID();
  const { own, ended } = await database.ownerSql.pool.hold((connection) =>
    connection.driver.begin(async (tx) => {
      await lockUser(tx, userId);
      const own = Array.from({ length: 200 }, () => logIn(replica, userId).catch((error: unknown) => error));
      await expect.poll(() => database.waitingForLocks()).toBe(1);
      const ended = Promise.all([
        withTurn(administrator, () => revokeUserSessions(replica.deps, end)),
        withTurn(administrator, () => revokeSession(replica.deps, end)),
        revokeUserSessions(replica.deps, end),
      ]);
      await expect.poll(() => database.waitingForLocks()).toBe(2);
      return { own, ended };
    }),
  );
  expect((await ended)[0].sessionIds).toContain(sessionId);
  expect((await Promise.all(own)).filter((answer) => answer instanceof DomainError)).not.toEqual([]);
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
  // Whoever waits until a gateway has read up to here must know both.
  const [head] = await database.ownerSql`select sequence from revocation_head`;
  expect(others.sequence).toBe(Number(head?.sequence));
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
  const late = await rpc.revokeUserSessions(end, newCallContext({ budgetMs: 60_000 }) as RpcContext);
  expect(late.sessionIds).toEqual([before, withinTheRoom]);
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([after]);

  const account = { ...end, reason: "account_deleted" };
  const erased = await rpc.revokeUserSessions(account, newCallContext({ budgetMs: 60_000 }) as RpcContext);
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
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBeGreaterThan(0);
    const sessionId = randomUUID();
    await insertSession(tx, { ...session, id: sessionId });
    return { sessionId, ending: { result: ending } };
  });
  expect((await ending.result).sessionIds).toContain(sessionId);
  expect(await liveOf(userId)).toEqual([]);
});

test("an expired session is not listed, and not counted against the limit", async () => {
  const userId = randomUUID();
  const old = await logIn(replica, userId);
  const young = await logIn(replica, userId);
  await database.ownerSql`update sessions set idle_end = now() - interval '1 second' where id = ${old.sessionId}`;
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([young.sessionId]);
  for (let login = 0; login < 19; login += 1) await logIn(replica, userId);
  expect((await liveOf(userId)).map(({ id }) => id)).toContain(young.sessionId);
});

test("another user's session and an unknown one are not found alike", async () => {
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
      (id, user_id, role, amr, acr, auth_time, token_secret, generation, rotated_at, created_at, last_used_at, last_signed_at,
       idle_end, absolute_end)
    select gen_random_uuid(), ${userId}, 'USER', '{pwd}', 1, now(), decode(repeat('00', 32), 'hex'), 1, now(),
           now() - interval '9 days', now(), now(), now() - interval '2 days', now()
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

const ringing = () => {
  const rung = { times: 0 };
  const revocations = {
    announce: () => {
      rung.times += 1;
    },
  };
  return { rung, revocations };
};
const rowOf = async (sessionId: string) => {
  const [row] = await database.ownerSql`
    select revoked_reason as reason, idle_end as "idleEnd", absolute_end as "absoluteEnd", ip, user_agent as "userAgent"
    from sessions where id = ${sessionId}`;
  return row;
};
const NEW = {
  role: "USER" as const,
  amr: ["pwd"],
  acr: 1 as const,
  authTime: new Date(),
  ip: "192.0.2.1",
  userAgent: "test",
};

test("a login that ends the oldest session says why, and notifies the other replicas; one that ends none does not", async () => {
  const { rung, revocations } = ringing();
  const deps = { ...replica.deps, revocations, maxSessionsPerUser: 2 };
  const userId = randomUUID();
  const first = await issueSession(deps, { ...NEW, userId });
  const second = await issueSession(deps, { ...NEW, userId });
  expect(rung.times).toBe(0);
  const third = await issueSession(deps, { ...NEW, userId });
  expect(rung.times).toBe(1);
  expect((await rowOf(first.sessionId))?.reason).toBe("session_limit");
  expect((await liveOf(userId)).map(({ id }) => id)).toEqual([third.sessionId, second.sessionId]);
});

test("a session is not idle for longer than it may last", async () => {
  const clock = new Date();
  const lifetimes = { ...replica.deps.lifetimes, refreshIdleTtlS: 100, sessionAbsoluteTtlS: 50 };
  const deps = { ...replica.deps, lifetimes, now: () => clock };
  const { sessionId } = await issueSession(deps, { ...NEW, userId: randomUUID() });
  const end = new Date(clock.getTime() + 50_000);
  expect(await rowOf(sessionId)).toMatchObject({ idleEnd: end, absoluteEnd: end });
});

test("an end leaves word of it, once, and one that an operator ordered word of who did. Both are announced", async () => {
  const { rung, revocations } = ringing();
  let events = 0;
  const onSecurityEvent = () => {
    events += 1;
  };
  const deps = { ...replica.deps, revocations, onSecurityEvent };
  const userId = randomUUID();
  const [ordered, own] = [await logIn(replica, userId), await logIn(replica, userId)];
  const call = { person: "operator:ada", requestId: "request-1", traceId: "trace-1" };
  await revokeSession(deps, { sessionId: own.sessionId, userId, reason: "logout" });
  expect([events, rung.times]).toEqual([1, 1]);
  for (const reason of ["stolen", "again"]) {
    await revokeSession(deps, { sessionId: ordered.sessionId, userId, reason, recordedAs: call });
  }
  expect(events).toBeGreaterThan(1);
  expect(rung.times).toBe(3);
  const rows = await database.ownerSql`
    select type, session_id as "sessionId", person, reason, ip, user_agent as "userAgent", request_id as "requestId",
           trace_id as "traceId", key_id as "keyId"
    from security_events where user_id = ${userId} order by id`;
  const ended = { ip: "", userAgent: "", keyId: null, person: null, requestId: "", traceId: "" };
  expect([...rows]).toEqual([
    { ...ended, type: "session_ended", sessionId: own.sessionId, reason: "logout" },
    {
      type: "session_revoked",
      sessionId: ordered.sessionId,
      reason: "stolen",
      ip: "",
      userAgent: "",
      keyId: null,
      ...call,
    },
    { ...ended, type: "session_ended", sessionId: ordered.sessionId, reason: "stolen" },
  ]);
  expect((await rowOf(ordered.sessionId))?.reason).toBe("stolen");
});

test("a session that a login in its browser has replaced leaves word of it for its owner, once; a logout only that it ended", async () => {
  const rpc = createSessionRpc(replica.deps, async () => undefined);
  const context: RpcContext = { ...newCallContext(), caller: "gateway" };
  const userId = randomUUID();
  const [replaced, left] = [await logIn(replica, userId), await logIn(replica, userId)];
  for (const [{ sessionId }, reason] of [
    [replaced, "replaced"],
    [replaced, "replaced"],
    [left, "logout"],
  ] as const)
    await rpc.revokeSession({ sessionId, userId, reason }, context);
  const rows = await database.ownerSql`
    select type, session_id as "sessionId", person, reason, request_id as "requestId"
    from security_events where user_id = ${userId} order by id`;
  const { requestId } = context;
  const ended = { type: "session_ended", person: null, requestId: "" };
  const of = ({ sessionId }: { sessionId: string }, reason: string) => ({ sessionId, reason });
  expect([...rows]).toEqual([
    { type: "session_revoked", person: null, requestId, ...of(replaced, "replaced") },
    { ...ended, ...of(replaced, "replaced") },
    { ...ended, ...of(left, "logout") },
  ]);
});

test("an end of all sessions of a user without any is announced and changes nothing", async () => {
  const { rung, revocations } = ringing();
  const deps = { ...replica.deps, revocations };
  const userId = randomUUID();
  const { sessionId } = await logIn(replica, userId);
  const first = await revokeUserSessions(deps, { userId, reason: "logout" });
  expect(first.sessionIds).toEqual([sessionId]);
  const second = await revokeUserSessions(deps, { userId, reason: "other" });
  expect(second).toEqual({ sessionIds: [], sequence: first.sequence });
  expect(await rowOf(sessionId)).toMatchObject({ reason: "logout", ip: "192.0.2.1", userAgent: "test" });
  expect(rung.times).toBe(2);
});

test("an erased account's session that had ended before keeps nothing of where it was used from", async () => {
  const userId = randomUUID();
  const [ended, other] = [await logIn(replica, userId), await logIn(replica, randomUUID())];
  await revokeSession(replica.deps, { sessionId: ended.sessionId, userId, reason: "logout" });
  expect(await rowOf(ended.sessionId)).toMatchObject({ ip: "192.0.2.1", userAgent: "test" });
  await revokeSession(replica.deps, { sessionId: ended.sessionId, userId, reason: "account_deleted" });
  expect(await rowOf(ended.sessionId)).toMatchObject({ ip: "", userAgent: "", reason: "logout" });
  expect(await rowOf(other.sessionId)).toMatchObject({ ip: "192.0.2.1" });
});

test("of two ends of a session the first is the one that is kept", async () => {
  const { sessionId } = await logIn(replica, randomUUID());
  await transaction(database.sql, async (tx) => {
    await markSessionsRevoked(tx, [sessionId], "first", new Date());
    await markSessionsRevoked(tx, [sessionId], "second", new Date());
  });
  expect((await rowOf(sessionId))?.reason).toBe("first");
});

test("a leaf that is seen late moves the last use never backwards, and an ended session not at all", async () => {
  const [live, ended] = [await logIn(replica, randomUUID()), await logIn(replica, randomUUID())];
  const seenOf = async (sessionId: string) => {
    const [row] = await database.ownerSql<{ leafSeen: boolean; lastUsedAt: Date }[]>`
      select leaf_seen as "leafSeen", last_used_at as "lastUsedAt" from sessions where id = ${sessionId}`;
    return row;
  };
  const before = await seenOf(live.sessionId);
  await database.ownerSql`update sessions set revoked_at = now(), revoked_reason = 'logout' where id = ${ended.sessionId}`;
  const leaves = [live, ended].map(({ sessionId }) => ({ sessionId, generation: 1 }));
  await markLeavesSeen(database.sql, leaves, new Date(0));
  expect(await seenOf(live.sessionId)).toEqual({ leafSeen: true, lastUsedAt: before?.lastUsedAt });
  expect(await seenOf(ended.sessionId)).toMatchObject({ leafSeen: false });
});

test("an ended session is kept for a day", async () => {
  const [kept, gone] = [await logIn(replica, randomUUID()), await logIn(replica, randomUUID())];
  await database.ownerSql`
    update sessions set created_at = now() - interval '20 days',
      idle_end = now() - case when id = ${kept.sessionId} then interval '23 hours' else interval '25 hours' end
    where id in ${database.ownerSql([kept.sessionId, gone.sessionId])}`;
  await cleanUp({ ...replica.deps, sql: database.sql });
  expect([await rowOf(kept.sessionId), await rowOf(gone.sessionId)]).toEqual([expect.anything(), undefined]);
});

test("an end of all sessions takes those whose idle end has come within the minute, as clocks differ", async () => {
  const userId = randomUUID();
  const [recent, ended] = [await logIn(replica, userId), await logIn(replica, userId)];
  await database.ownerSql`
    update sessions set idle_end = now() - case when id = ${recent.sessionId} then interval '50 seconds' else interval '70 seconds' end
    where id in (${recent.sessionId}, ${ended.sessionId})`;
  const { sessionIds } = await revokeUserSessions(replica.deps, { userId, reason: "logout" });
  expect(sessionIds).toEqual([recent.sessionId]);
});

test("a session that was revoked is kept for a day, though its idle end is a week away", async () => {
  const userId = randomUUID();
  const [old, recent, live] = [
    await logIn(replica, userId),
    await logIn(replica, userId),
    await logIn(replica, userId),
  ];
  await database.ownerSql`
    update sessions set revoked_reason = 'logout',
      revoked_at = now() - case when id = ${old.sessionId} then interval '25 hours' else interval '23 hours' end
    where id in (${old.sessionId}, ${recent.sessionId})`;
  await cleanUp({ ...replica.deps, sql: database.sql });
  const rows = await database.sql<
    { id: string }[]
  >`select id from sessions where user_id = ${userId} order by created_at, id`;
  expect(rows.map(({ id }) => id)).toEqual([recent.sessionId, live.sessionId]);
});
