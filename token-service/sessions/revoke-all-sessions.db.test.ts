import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { readDatabaseClock } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeAllSessions, type SweepPosition } from "./revoke-all-sessions.ts";
import { revokeUserSessions } from "./revoke-session.ts";

const CALL = { requestId: "request-1", traceId: "0123456789abcdef0123456789abcdef" };
const ORIGIN = { ip: "192.0.2.1", userAgent: "test", ...CALL };

let databases: TestDatabase[];
let replicas: TokenReplica[];
let live: TestDatabase;

beforeEach(async () => {
  live = await createTestDatabase("token-service");
  databases = [live];
  replicas = [];
});
afterEach(async () => {
  for (const replica of replicas) replica.stop();
  for (const database of databases) await database.drop();
});

async function start(database: TestDatabase): Promise<TokenReplica> {
  const replica = await startTokenReplica(database.sql);
  replicas.push(replica);
  return replica;
}

async function endAll({ deps }: TokenReplica, issuedBefore = deps.now()): Promise<number> {
  let cursor: SweepPosition | undefined;
  let ended = 0;
  do {
    const part = await revokeAllSessions(deps, { issuedBefore, reason: "restored", cursor }, CALL);
    ended += part.ended;
    cursor = part.next;
  } while (cursor !== undefined);
  await deps.keys.reload();
  await deps.revocations.refresh();
  return ended;
}

const refresh = ({ deps }: TokenReplica, token: string) => refreshSession(deps, token, ORIGIN);
const isActive = async ({ deps }: TokenReplica, token: string) => (await verifyToken(deps, token)).active;

test("a session revoked after the backup stays dead after restore and sessions revoke-all", async () => {
  const before = await start(live);
  const userId = randomUUID();
  const stolen = await logIn(before, userId);
  // Long before: nothing but the ban of its key ends its access token.
  await live.ownerSql`update sessions set created_at = now() - interval '1 day', rotated_at = now() - interval '1 hour'`;
  const backup = await live.backUp();
  databases.push(backup);
  await revokeUserSessions(before.deps, { userId, reason: "logout" });
  await before.deps.revocations.refresh();
  expect(await isActive(before, stolen.accessToken)).toBe(false);
  await expect(refresh(before, stolen.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });

  const restored = await start(backup);
  // What the procedure is for: the backup knows nothing of the logout.
  expect(await isActive(restored, stolen.accessToken)).toBe(true);
  expect(await endAll(restored)).toBe(1);
  expect(await isActive(restored, stolen.accessToken)).toBe(false);
  await expect(refresh(restored, stolen.refreshToken)).rejects.toMatchObject({
    code: "refresh_token_invalid",
  });
});

test("a key that was banned after the backup signs nothing any more, and neither does the next key of then", async () => {
  const before = await start(live);
  const old = before.deps.keys.list().map(({ id }) => id);
  // As the first two keys may be, which are made at the same time.
  await live.ownerSql`update signing_keys set created_at = (select created_at - interval '1 second' from signing_keys where state = 'next') where state = 'next'`;
  const backup = await live.backUp();
  databases.push(backup);
  const restored = await start(backup);
  await endAll(restored);
  const states = new Map(restored.deps.keys.list().map(({ id, state }) => [id, state]));
  expect(old.map((id) => states.get(id))).toEqual(["revoked", "revoked"]);
  expect(old).not.toContain(restored.deps.keys.active().id);
  const rotatedTo = await backup.ownerSql`
    select key_id as "keyId" from security_events where type = 'signing_key_rotated'`;
  // Not for a moment did a key of the backup sign.
  expect(rotatedTo.map(({ keyId }) => keyId as string).filter((keyId) => old.includes(keyId))).toEqual([]);
  const fresh = await logIn(restored, randomUUID());
  expect(await isActive(restored, fresh.accessToken)).toBe(true);
  await refresh(restored, fresh.refreshToken);
});

test("a session that was refreshed between the ban of the keys and its own end is refused at once", async () => {
  const replica = await start(live);
  const issuedBefore = replica.deps.now();
  await sleep(5);
  const kept = await logIn(replica, randomUUID());
  const session = await logIn(replica, randomUUID());
  await live.ownerSql`update sessions set created_at = now() - interval '1 day' where id = (select max(id::text)::uuid from sessions)`;
  await revokeAllSessions(
    replica.deps,
    { issuedBefore: new Date(0), reason: "ban only", cursor: undefined },
    CALL,
  );
  await replica.deps.keys.reload();
  const between = await refresh(replica, session.refreshToken);
  expect(await isActive(replica, between.accessToken)).toBe(true);
  const cursor = {
    beganAt: issuedBefore,
    part: 0,
    changes: 0,
    sessionId: "00000000-0000-0000-0000-000000000000",
  };
  const { ended } = await revokeAllSessions(replica.deps, { issuedBefore, reason: "r", cursor }, CALL);
  await replica.deps.revocations.refresh();
  expect(ended).toBe(1);
  expect(await isActive(replica, between.accessToken)).toBe(false);
  // The younger session lost its access token with the keys and gets another.
  expect(await isActive(replica, kept.accessToken)).toBe(false);
  await refresh(replica, kept.refreshToken);
});

/** As if everything in the sessions had happened so much earlier. */
const age = (interval: string) => live.ownerSql`
  update sessions
  set created_at = now() - ${interval}::interval, rotated_at = now() - ${interval}::interval,
      last_signed_at = now() - ${interval}::interval
`;
const keysWereBanned = async ({ deps }: TokenReplica): Promise<SweepPosition> => {
  const { next } = await revokeAllSessions(
    deps,
    { issuedBefore: new Date(0), reason: "ban only", cursor: undefined },
    CALL,
  );
  expect(next).toBeUndefined();
  await deps.keys.reload();
  return {
    beganAt: await readDatabaseClock(live.sql),
    part: 0,
    changes: 0,
    sessionId: "00000000-0000-0000-0000-000000000000",
  };
};

test("a lost answer that was fetched again between the ban of the keys and the session's end is refused at once", async () => {
  const replica = await start(live);
  const first = await logIn(replica, randomUUID());
  await refresh(replica, first.refreshToken);
  await age("1 hour");
  const issuedBefore = await readDatabaseClock(live.sql);
  const cursor = await keysWereBanned(replica);
  // No generation moves: the parent of an unseen leaf gets it again, signed by the key that took over.
  const repeated = await refresh(replica, first.refreshToken);
  expect(await isActive(replica, repeated.accessToken)).toBe(true);
  const { ended } = await revokeAllSessions(replica.deps, { issuedBefore, reason: "r", cursor }, CALL);
  await replica.deps.revocations.refresh();
  expect(ended).toBe(1);
  expect(await isActive(replica, repeated.accessToken)).toBe(false);
});

const sessionsOfYesterday = (count: number) => live.ownerSql`
  insert into sessions (id, user_id, role, amr, acr, auth_time, token_secret, generation, rotated_at, created_at,
                        last_used_at, last_signed_at, idle_end, absolute_end)
  select gen_random_uuid(), gen_random_uuid(), 'USER', '{pwd}', 1, at, sha256('x'), 1, at, at, at, at,
         at + interval '7 days', at + interval '30 days'
  from generate_series(1, ${count}::integer), (select now() - interval '1 day' as at) as begun`;

test("it goes over more sessions than one look takes, and notifies the audit log once", async () => {
  const replica = await start(live);
  await sessionsOfYesterday(4_500);
  expect(await endAll(replica)).toBe(4_500);
  expect(await endAll(replica)).toBe(0);
  const [{ live: left, entries } = { live: -1, entries: -1 }] = await live.ownerSql<
    { live: number; entries: number }[]
  >`
    select (select count(*)::integer from sessions where revoked_at is null) as live,
           (select count(*)::integer from revocations where session_id is not null) as entries`;
  expect({ left, entries }).toEqual({ left: 0, entries: 0 });
  const events = await live.ownerSql`
    select reason, request_id as "requestId" from security_events where type = 'all_sessions_revoked'`;
  expect([...events]).toEqual([
    { reason: "restored", requestId: "request-1" },
    { reason: "restored", requestId: "request-1" },
  ]);
});

test("a call works for four seconds at the most, and the next one goes on where it ended", async () => {
  const { deps } = await start(live);
  await sessionsOfYesterday(4_500);
  const clock = vi.spyOn(performance, "now").mockReturnValue(10_000);
  onTestFinished(() => clock.mockRestore());
  const request = { issuedBefore: deps.now(), reason: "r" };
  const slow = { ...deps, onSecurityEvent: () => void clock.mockReturnValue(14_000) };
  const first = await revokeAllSessions(slow, { ...request, cursor: undefined }, CALL);
  expect(first.ended).toBe(2_000);
  const second = await revokeAllSessions(deps, { ...request, cursor: first.next }, CALL);
  expect(second).toMatchObject({ ended: 2_500, next: undefined });
});

test("this replica gives sessions again as soon as the command has answered", async () => {
  const replica = await start(live);
  const request = { issuedBefore: replica.deps.now(), reason: "r", cursor: undefined };
  await revokeAllSessions(replica.deps, request, CALL);
  await replica.deps.revocations.refresh();
  const pair = await logIn(replica, randomUUID());
  expect(await isActive(replica, pair.accessToken)).toBe(true);
});

test("now is of token-service: it ends what a replica whose clock is ahead has begun, and nothing later", async () => {
  const replica = await start(live);
  await logIn(replica, randomUUID());
  const begin = (by: string) => live.ownerSql`update sessions set created_at = now() + ${by}::interval`;
  const all = () => revokeAllSessions(replica.deps, { reason: "r", cursor: undefined }, CALL);
  await begin("1 minute");
  expect((await all()).ended).toBe(0);
  await begin("2 seconds");
  expect((await all()).ended).toBe(1);
});

test("a moment in the future is refused before anything is banned", async () => {
  const replica = await start(live);
  const issuedBefore = new Date(replica.deps.now().getTime() + 120_000);
  const request = { issuedBefore, reason: "r", cursor: undefined };
  await expect(revokeAllSessions(replica.deps, request, CALL)).rejects.toMatchObject({
    code: "validation_failed",
  });
  await replica.deps.keys.reload();
  expect(replica.deps.keys.list().map(({ state }) => state)).not.toContain("revoked");
});

test("the moment may be as far ahead as an operator's clock, and no further", async () => {
  const { deps } = await start(live);
  const now = new Date();
  const fixed = { ...deps, now: () => now };
  const request = (aheadMs: number) => ({
    issuedBefore: new Date(now.getTime() + aheadMs),
    reason: "r",
    cursor: { beganAt: now, part: 0, changes: 0, sessionId: "ffffffff-ffff-ffff-ffff-ffffffffffff" },
  });
  await expect(revokeAllSessions(fixed, request(60_001), CALL)).rejects.toMatchObject({
    code: "validation_failed",
  });
  await expect(revokeAllSessions(fixed, request(60_000), CALL)).resolves.toMatchObject({ ended: 0 });
});

test("only what was signed less than a minute before the ban gets an entry of its own", async () => {
  const replica = await start(live);
  const [young, old] = [await logIn(replica, randomUUID()), await logIn(replica, randomUUID())];
  await age("1 hour");
  await live.ownerSql`
    update sessions set leaf_seen = true, last_signed_at = now() - case
      when id = ${young.sessionId} then interval '30 seconds' else interval '90 seconds' end`;
  const beganAt = await readDatabaseClock(live.sql);
  const cursor = { beganAt, part: 0, changes: 0, sessionId: "00000000-0000-0000-0000-000000000000" };
  const { ended } = await revokeAllSessions(
    replica.deps,
    { issuedBefore: beganAt, reason: "r", cursor },
    CALL,
  );
  expect(ended).toBe(2);
  const rows = await live.ownerSql`select session_id as id from revocations where session_id is not null`;
  expect(rows.map(({ id }) => id as string)).toEqual([young.sessionId]);
  expect(old.sessionId).not.toBe(young.sessionId);
});

test("an expired or revoked session is left unchanged", async () => {
  const replica = await start(live);
  const userId = randomUUID();
  const [idle, revoked] = [await logIn(replica, randomUUID()), await logIn(replica, userId)];
  const open = await logIn(replica, randomUUID());
  await revokeUserSessions(replica.deps, { userId, reason: "logout" });
  await live.ownerSql`update sessions set idle_end = now() - interval '61 seconds' where id = ${idle.sessionId}`;
  expect(await endAll(replica, await readDatabaseClock(live.sql))).toBe(1);
  const rows = await live.ownerSql`select id, revoked_reason as reason from sessions`;
  expect(new Map(rows.map(({ id, reason }) => [id, reason]))).toEqual(
    new Map([
      [idle.sessionId, null],
      [revoked.sessionId, "logout"],
      [open.sessionId, "all_sessions_revoked"],
    ]),
  );
});

test("the first call names the keys that it banned and says that there are events; each call is announced", async () => {
  const replica = await start(live);
  const old = replica.deps.keys.list().map(({ id }) => id);
  const sent = { rings: 0, events: 0 };
  const announce = () => {
    sent.rings += 1;
  };
  const deps = {
    ...replica.deps,
    revocations: { announce },
    parts: { all: replica.deps.parts.all, announce },
    onSecurityEvent: () => {
      sent.events += 1;
    },
  };
  const issuedBefore = await readDatabaseClock(live.sql);
  const first = await revokeAllSessions(deps, { issuedBefore, reason: "r", cursor: undefined }, CALL);
  expect(first.bannedKeyIds.toSorted()).toEqual(old.toSorted());
  expect(sent).toEqual({ rings: 3, events: 1 });
  const cursor = {
    beganAt: issuedBefore,
    part: 0,
    changes: 0,
    sessionId: "00000000-0000-0000-0000-000000000000",
  };
  const second = await revokeAllSessions(deps, { issuedBefore, reason: "r", cursor }, CALL);
  expect(second).toEqual({ ended: 0, next: undefined, bannedKeyIds: [] });
  expect(sent).toEqual({ rings: 4, events: 1 });
  const again = await revokeAllSessions(deps, { issuedBefore, reason: "r", cursor: undefined }, CALL);
  expect(again.bannedKeyIds.filter((keyId) => old.includes(keyId))).toEqual([]);
});
