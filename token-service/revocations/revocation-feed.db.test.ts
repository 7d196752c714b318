import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  logIn,
  startTokenReplica,
  type TokenReplica,
  type TokenReplicaOptions,
} from "#tests/support/system/token-service.ts";
import { cleanUp } from "../sessions/housekeeping.ts";
import { revokeSession, revokeUserSessions } from "../sessions/revoke-session.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { createMemoryBell, type RevocationBell } from "./revocation-bell.ts";
import type { RevocationBatch } from "./revocation-feed.ts";
import { LOG_BEGIN, readRevocations } from "./revocation-store.ts";

let database: TestDatabase;
const replicas: TokenReplica[] = [];

beforeEach(async () => {
  database = await createTestDatabase("token-service");
});

afterEach(async () => {
  for (const replica of replicas.splice(0)) replica.stop();
  await database.drop();
});

async function start(options: TokenReplicaOptions = {}): Promise<TokenReplica> {
  const replica = await startTokenReplica(database.sql, options);
  replicas.push(replica);
  return replica;
}

async function endNewSession(replica: TokenReplica): Promise<string> {
  const userId = randomUUID();
  const { sessionId } = await logIn(replica, userId);
  await revokeSession(replica.deps, { sessionId, userId, reason: "logout" });
  return sessionId;
}

/** Reads batches until the condition holds. */
async function collect(
  batches: AsyncIterable<RevocationBatch>,
  isEnough: (seen: number[]) => boolean,
): Promise<number[]> {
  const seen: number[] = [];
  for await (const batch of batches) {
    seen.push(...batch.revocations.map(({ sequence }) => sequence));
    if (isEnough(seen)) break;
  }
  return seen;
}

/** A bell that does nothing: Redis away, or its messages lost. */
const deafBell: RevocationBell = { ring() {}, onRing() {}, close: async () => undefined };

test("a hundred revocations, five of which race at a time, are numbered without gaps, in the order of their commits", async () => {
  const replica = await start();
  for (let round = 0; round < 20; round += 1)
    await Promise.all(Array.from({ length: 5 }, () => endNewSession(replica)));
  const rows = await database.sql<{ sequence: string }[]>`select sequence from revocations order by sequence`;
  expect(rows.map(({ sequence }) => Number(sequence))).toEqual(
    Array.from({ length: 100 }, (_, index) => index + 1),
  );
});

test("a watcher gets all existing and new entries, once and in order", async () => {
  const replica = await start();
  for (let index = 0; index < 3; index += 1) await endNewSession(replica);
  const abort = new AbortController();
  const collecting = collect(
    replica.deps.revocations.watch(LOG_BEGIN, abort.signal),
    (seen) => seen.length >= 6,
  );
  await Promise.all(Array.from({ length: 3 }, () => endNewSession(replica)));
  expect(await collecting).toEqual([1, 2, 3, 4, 5, 6]);
});

test("a returning watcher gets only the entries that it missed, from any replica", async () => {
  const first = await start();
  for (let index = 0; index < 4; index += 1) await endNewSession(first);
  const second = await start();
  const seen = await collect(
    second.deps.revocations.watch({ sequence: 2, tip: "" }, new AbortController().signal),
    () => true,
  );
  expect(seen).toEqual([3, 4]);
});

test("a long backlog is sent in batches, and only the last is marked as caught up", async () => {
  const replica = await start();
  await database.sql`update revocation_head set sequence = 1200`;
  await database.sql`
    insert into revocations (sequence, session_id, expires_at)
    select n, gen_random_uuid(), now() + interval '10 minutes' from generate_series(1, 1200) as n
  `;
  const sizes: [number, boolean][] = [];
  for await (const { revocations, caughtUp } of replica.deps.revocations.watch(
    LOG_BEGIN,
    new AbortController().signal,
  )) {
    sizes.push([revocations.length, caughtUp]);
    if (caughtUp) break;
  }
  expect(sizes).toEqual([
    [500, false],
    [500, false],
    [200, true],
  ]);
});

test("a watcher ahead of a restored database gets all entries again", async () => {
  const replica = await start();
  await endNewSession(replica);
  const seen = await collect(
    replica.deps.revocations.watch({ sequence: 1_000, tip: "" }, new AbortController().signal),
    () => true,
  );
  expect(seen).toEqual([1]);
});

test("with no bell at all, another replica refuses the session by its next poll", async () => {
  const first = await start({ bell: deafBell });
  const second = await start({ bell: deafBell });
  const userId = randomUUID();
  const { sessionId, accessToken } = await logIn(first, userId);
  expect(await verifyToken(second.deps, accessToken)).toMatchObject({ active: true });
  await revokeSession(first.deps, { sessionId, userId, reason: "logout" });
  await expect.poll(() => second.deps.revocations.isSessionRevoked(sessionId)).toBe(true);
  expect(await verifyToken(second.deps, accessToken)).toEqual({ active: false, refusal: "revoked" });
});

test("a bell makes another replica read at once", async () => {
  const bell = createMemoryBell();
  const first = await start({ bell });
  const second = await start({ bell });
  let reads = 0;
  const refresh = second.deps.revocations.refresh.bind(second.deps.revocations);
  second.deps.revocations.refresh = () => {
    reads += 1;
    return refresh();
  };
  const sessionId = await endNewSession(first);
  await expect.poll(() => second.deps.revocations.isSessionRevoked(sessionId), { interval: 5 }).toBe(true);
  expect(reads).toBeGreaterThan(0);
});

test("a replica that starts knows every unexpired revocation before it answers", async () => {
  const first = await start();
  const userId = randomUUID();
  const { sessionId, accessToken } = await logIn(first, userId);
  await revokeSession(first.deps, { sessionId, userId, reason: "logout" });
  const restarted = await start({ bell: deafBell });
  expect(await verifyToken(restarted.deps, accessToken)).toEqual({ active: false, refusal: "revoked" });
});

test("while the log cannot be read nothing is answered, neither yes nor no", async () => {
  const replica = await start();
  const { accessToken } = await logIn(replica, randomUUID());
  expect(await verifyToken(replica.deps, accessToken)).toMatchObject({ active: true });
  await database.ownerSql`alter table revocation_head rename to gone`;
  await expect
    .poll(() => verifyToken(replica.deps, accessToken).catch((error: { code: string }) => error.code))
    .toBe("service_unavailable");
  await database.ownerSql`alter table gone rename to revocation_head`;
  await expect
    .poll(() => verifyToken(replica.deps, accessToken).catch(() => undefined))
    .toMatchObject({ active: true });
});

test("a revocation is dropped only once no token can be valid, whatever the clock says", async () => {
  const clock = { ms: Date.now() };
  const uptime = { ms: 0 };
  const replica = await start({ clock, uptime });
  const sessionId = await endNewSession(replica);
  await replica.deps.revocations.refresh();
  clock.ms += 3_600_000;
  uptime.ms += 909_000;
  await replica.deps.revocations.refresh();
  expect(replica.deps.revocations.isSessionRevoked(sessionId)).toBe(true);
  await database.ownerSql`update revocations set expires_at = now()`;
  uptime.ms += 2_000;
  await replica.deps.revocations.refresh();
  expect(replica.deps.revocations.isSessionRevoked(sessionId)).toBe(false);
});

test("an end in the database that is too far or already past changes nothing about how long it is kept at the least", async () => {
  const uptime = { ms: 0 };
  await database.ownerSql`
    insert into revocations (sequence, session_id, expires_at) values
      (1, '00000000-0000-4000-8000-000000000001', now() + interval '1 second'),
      (2, '00000000-0000-4000-8000-000000000002', now() + interval '100 years')
  `;
  await database.ownerSql`update revocation_head set sequence = 2`;
  const { revocations } = (await start({ uptime })).deps;
  const known = () =>
    [1, 2].map((n) => revocations.isSessionRevoked(`00000000-0000-4000-8000-00000000000${n}`));
  uptime.ms += 909_000;
  await database.ownerSql`update revocations set expires_at = now()`;
  await revocations.refresh();
  expect(known()).toEqual([true, true]);
  uptime.ms += 2_000;
  await revocations.refresh();
  expect(known()).toEqual([false, true]);
  uptime.ms += 2_700_000;
  await revocations.refresh();
  expect(known()).toEqual([false, false]);
});

test("what a replica that is set to shorter tokens revokes is read for as long as the longer ones live", async () => {
  const shorter = await start({ accessTtlS: 60 });
  const userId = randomUUID();
  const { accessToken, sessionId } = await logIn(await start(), userId);
  await revokeSession(shorter.deps, { sessionId, userId, reason: "logout" });
  const isRefused = async () => {
    const { deps } = await start();
    return (await verifyToken(deps, accessToken)).active === false;
  };
  const [row] =
    await database.ownerSql`select created_at as "createdAt", expires_at as "expiresAt" from revocations`;
  const before = (time: Date, seconds: number) => new Date(time.getTime() - seconds * 1_000);
  for (const age of [120, 900]) {
    await database.ownerSql`
      update revocations set created_at = ${before(row?.createdAt, age)}, expires_at = ${before(row?.expiresAt, age)}`;
    expect(await isRefused(), `${age} s`).toBe(true);
  }
  await database.ownerSql`update revocations set created_at = ${before(row?.createdAt, 911)}`;
  expect(await isRefused()).toBe(false);
});

test("a process whose clock is an hour behind revokes for as long as any other", async () => {
  const behind = await start({ clock: { ms: Date.now() - 3_600_000 } });
  const other = await start({ bell: deafBell });
  const sessionId = await endNewSession(behind);
  await other.deps.revocations.refresh();
  expect(other.deps.revocations.isSessionRevoked(sessionId)).toBe(true);
});

/** A fail-over to a standby that had not yet heard of the last entries. */
async function loseEntries(count: number): Promise<void> {
  await database.ownerSql`
    delete from revocations where sequence > (select sequence from revocation_head) - ${count}::integer
  `;
  await database.ownerSql`update revocation_head set sequence = sequence - ${count}`;
}

test.each([1, 3])(
  "a fail-over that loses entries and as many (or %i) new ones leave nothing unread",
  async (added) => {
    const replica = await start();
    const watching = new AbortController();
    const batches = replica.deps.revocations.watch(LOG_BEGIN, watching.signal);
    const kept = await endNewSession(replica);
    const lost = await endNewSession(replica);
    const sent: string[] = [];
    const readUntil = async (sessionId: string) => {
      while (!sent.includes(sessionId)) {
        const batch = (await batches.next()).value as RevocationBatch;
        sent.push(...batch.revocations.map(({ sessionId: id }) => id ?? ""));
      }
    };
    await readUntil(lost);

    await loseEntries(1);
    const userId = randomUUID();
    const others = await start({ bell: deafBell }); // the one that writes has read none of it
    const sessions = [];
    for (let index = 0; index < added; index += 1) sessions.push(await logIn(others, userId));
    // One commit, so that no read sees the log shorter than it was.
    await revokeUserSessions(others.deps, { userId, reason: "logout" });
    const fresh = sessions.map(({ sessionId }) => sessionId);
    await replica.deps.revocations.refresh();
    const { revocations } = replica.deps;
    expect(fresh.map((id) => revocations.isSessionRevoked(id))).toEqual(fresh.map(() => true));
    expect([kept, lost].map((id) => revocations.isSessionRevoked(id))).toEqual([true, true]);
    for (const sessionId of fresh) await readUntil(sessionId);
    watching.abort();
  },
);

test("a watcher at a lost entry gets all entries again, from any replica", async () => {
  const replica = await start();
  for (let index = 0; index < 3; index += 1) await endNewSession(replica);
  const signal = new AbortController().signal;
  const known = (await replica.deps.revocations.watch(LOG_BEGIN, signal).next()).value?.position ?? LOG_BEGIN;
  expect(known.sequence).toBe(3);
  await loseEntries(1);
  const second = await start();
  await endNewSession(second);
  await endNewSession(second);
  expect(await collect(second.deps.revocations.watch(known, signal), () => true)).toEqual([1, 2, 3, 4]);
  // A position after a cut names the number alone.
  expect(await collect(second.deps.revocations.watch({ ...known, tip: "" }, signal), () => true)).toEqual([
    4,
  ]);
});

test("clean-up keeps the newest entry, so that a quiet hour is not taken for a loss", async () => {
  const replica = await start();
  await endNewSession(replica);
  await endNewSession(replica);
  await database.ownerSql`update revocations set expires_at = now() - interval '2 hours'`;
  await cleanUp({ ...replica.deps, sql: database.sql });
  const rows = await database.sql<{ sequence: string }[]>`select sequence from revocations`;
  expect(rows.map(({ sequence }) => sequence)).toEqual(["2"]);
});

test("the lag counts from the begin of a read, however long it took", async () => {
  const uptime = { ms: 0 };
  const replica = await start({ bell: deafBell, uptime });
  const { revocations } = replica.deps;
  const holding = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const lock = transaction(database.ownerSql, async (tx) => {
    await tx`lock table revocation_head in access exclusive mode`;
    held.resolve();
    await holding.promise;
  });
  await held.promise;
  replica.stop(); // no read but this one
  const reading = revocations.refresh();
  uptime.ms += 700;
  holding.resolve();
  await Promise.all([lock, reading]);
  expect(revocations.lagMs).toBe(700);
});

test("a replica that starts does not read what no token can match any more, and clean-up keeps it for an hour", async () => {
  const first = await start();
  for (let index = 0; index < 3; index += 1) await endNewSession(first);
  await database.ownerSql`
    update revocations set created_at = now() - interval '75 minutes',
      expires_at = now() - case when sequence = 1 then interval '61 minutes' else interval '59 minutes' end
    where sequence < 3`;
  const second = await start();
  const watching = second.deps.revocations.watch(LOG_BEGIN, new AbortController().signal);
  expect(await collect(watching, () => true)).toEqual([3]);
  await cleanUp({ ...first.deps, sql: database.sql });
  const rows = await database.sql<{ sequence: string }[]>`select sequence from revocations order by sequence`;
  expect(rows.map(({ sequence }) => Number(sequence))).toEqual([2, 3]);
});

test("pages of the log follow each other to the head, whether their entries have ended or not", async () => {
  await database.ownerSql`
    insert into revocations (sequence, session_id, expires_at, created_at)
    select n, gen_random_uuid(), now() + ends, now() + ends - interval '15 minutes' from generate_series(1, 14) as n,
      lateral (select case when n <= 4 then interval '-2 hours' when n <= 8 then interval '-30 minutes' else interval '10 minutes' end as ends) as life`;
  await database.ownerSql`update revocation_head set sequence = 14`;
  const pages: number[][] = [];
  const marks: boolean[] = [];
  let position = LOG_BEGIN;
  for (let isHead = false; !isHead; ) {
    const page = await transaction(database.sql, (tx) =>
      readRevocations(
        tx,
        { positions: [position, LOG_BEGIN], slotChanges: 0 },
        { part: 0, accessTtlS: 900, limit: 3 },
      ),
    );
    expect(page.after).toBe(position.sequence);
    pages.push(page.revocations.map(({ sequence }) => sequence));
    marks.push(page.position.tip !== "");
    ({ position, isHead } = page);
  }
  expect(pages).toEqual([[], [], [9], [10, 11, 12], [13, 14]]);
  // Clean-up may delete the last entry of the first page at any time.
  expect(marks).toEqual([false, true, true, true, true]);
});

test("a page that cannot be read in time leaves no statement behind", async () => {
  const sql = database.sql;
  await transaction(sql, (tx) =>
    readRevocations(tx, { positions: [LOG_BEGIN], slotChanges: 0 }, { part: 0, accessTtlS: 900 }),
  );
  const held = Promise.withResolvers<void>();
  const holding = Promise.withResolvers<void>();
  const lock = transaction(database.ownerSql, async (tx) => {
    await tx`lock table revocation_head in access exclusive mode`;
    held.resolve();
    await holding.promise;
  });
  await held.promise;
  await expect(
    transaction(sql, (tx) =>
      readRevocations(tx, { positions: [LOG_BEGIN], slotChanges: 0 }, { part: 0, accessTtlS: 900 }),
    ),
  ).rejects.toMatchObject({
    code: "service_unavailable",
  });
  expect(await database.waitingForLocks()).toBe(0);
  holding.resolve();
  await lock;
});
