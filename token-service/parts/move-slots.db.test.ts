import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { openPool, type Sql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  createPartDatabase,
  createTestDatabase,
  type TestDatabase,
} from "#tests/support/database/postgres.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { acrOf } from "#token-client/assurance.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import { LOG_BEGIN } from "../revocations/revocation-store.ts";
import { insertSession, listLiveSessions, readSession } from "../rows/session-store.ts";
import { newSessionId, slotOfUser } from "../rows/user-slot.ts";
import { createSessionRpc } from "../session-rpc.ts";
import { revokeAllSessions, type SweepPosition } from "../sessions/revoke-all-sessions.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { createSlotSettler, moveSlot } from "./move-slots.ts";
import type { SessionPart } from "./open-part.ts";
import { Parts } from "./parts.ts";

const AWAY = new DomainError("service_unavailable");
const CALL = { requestId: "request-1", traceId: "0123456789abcdef0123456789abcdef" };

let databases: [TestDatabase, TestDatabase];
let replicas: TokenReplica[];
let replica: TokenReplica;
let userId: string;
let slot: number;

beforeEach(async () => {
  databases = [await createTestDatabase("token-service"), await createPartDatabase(1)];
  replicas = [];
  replica = await start();
  userId = randomUUID();
  slot = slotOfUser(userId);
});
afterEach(async () => {
  for (const each of replicas) await each.stop();
  for (const database of databases) await database.drop();
});

async function start(): Promise<TokenReplica> {
  const started = await startTokenReplica(databases[0].sql, { otherParts: [databases[1].sql] });
  replicas.push(started);
  return started;
}

const partOf = ({ deps }: TokenReplica, number: number) => deps.parts.all[number] as SessionPart;
const move = (number: number, deps: TokenReplica["deps"] = replica.deps) =>
  moveSlot(deps, slot, deps.parts.all[number]);

/** As callers reach a replica. */
function callsOf({ deps }: TokenReplica) {
  const rpc = createSessionRpc(deps, async () => undefined);
  const context = newCallContext() as Parameters<typeof rpc.refreshSession>[1];
  const origin = { ip: "192.0.2.1", userAgent: "test" };
  return {
    async logIn(user = userId) {
      const proof = { role: "USER", amr: ["pwd"], acr: acrOf(1), authTime: new Date() };
      const request = { userId: user, ...proof, ...origin, limits: undefined, confirmation: undefined };
      const { tokens } = await rpc.issueSession(request, context);
      if (tokens === undefined) throw new Error("no tokens");
      return tokens;
    },
    async refresh(refreshToken: string) {
      const request = { refreshToken, deviceCookie: "", ...origin, confirmation: undefined };
      const { tokens } = await rpc.refreshSession(request, context);
      if (tokens === undefined) throw new Error("no tokens");
      return tokens;
    },
    endAll: (user = userId) =>
      rpc.revokeUserSessions(
        { userId: user, exceptSessionId: "", reason: "logout", begunBefore: undefined },
        context,
      ),
    list: async (user = userId) =>
      (await rpc.listSessions({ userId: user }, context)).sessions.map(({ id }) => id),
  };
}

const rowsIn = async ({ ownerSql }: TestDatabase) => {
  const rows = await ownerSql<{ row: object }[]>`select to_jsonb(s) as row from sessions as s order by id`;
  return rows.map(({ row }) => row);
};
const stateIn = async ({ ownerSql }: TestDatabase) => {
  const [row] = await ownerSql<{ state: string; waiting: number }[]>`
    select state, (select count(*)::integer from leaving_sessions) as waiting from slots where slot = ${slot}`;
  return [row?.state, row?.waiting];
};

test("sessions move unchanged, there and back, and are used where they are", async () => {
  const calls = callsOf(replica);
  const { refreshToken, sessionId } = await calls.logIn();
  const stranger = await calls.logIn(randomUUID());
  const before = await rowsIn(databases[0]);
  expect(await move(1)).toMatchObject({ sessions: 1, awayMs: expect.any(Number) });
  expect(await rowsIn(databases[1])).toEqual(before.filter((row) => "id" in row && row.id === sessionId));
  expect((await rowsIn(databases[0])).map((row) => "id" in row && row.id)).toEqual([stranger.sessionId]);
  expect([await stateIn(databases[0]), await stateIn(databases[1])]).toEqual([
    ["away", 0],
    ["here", 0],
  ]);
  const second = await calls.logIn();
  const refreshed = await calls.refresh(refreshToken);
  expect((await calls.list()).sort()).toEqual([sessionId, second.sessionId].sort());
  expect(await rowsIn(databases[0])).toHaveLength(1);
  expect(await move(1)).toMatchObject({ sessions: 0 });
  expect(await move(0)).toMatchObject({ sessions: 2 });
  await calls.refresh(refreshed.refreshToken);
  expect((await calls.endAll()).sessionIds.sort()).toEqual([sessionId, second.sessionId].sort());
  expect(await rowsIn(databases[1])).toEqual([]);
});

test("a replica that does not know of a move yet writes where the sessions are", async () => {
  const unaware = await start();
  // It learns of moves by its own questions alone.
  for (const { revocations } of unaware.deps.parts.all) revocations.stop();
  const other = callsOf(unaware);
  const { refreshToken } = await callsOf(replica).logIn();
  await move(1);
  const [first, again] = await Promise.all([other.refresh(refreshToken), other.logIn()]);
  expect((await rowsIn(databases[1])).map((row) => "id" in row && row.id).sort()).toEqual(
    [first.sessionId, again.sessionId].sort(),
  );
  await move(0);
  expect((await other.endAll()).sessionIds).toHaveLength(2);
});

test("a login that has not committed yet holds its slot", async () => {
  const { sql } = databases[0];
  const session = await sessionOf(databases[0]);
  const id = newSessionId(userId);
  let moving: Promise<unknown> = Promise.resolve();
  await transaction(sql, async (tx) => {
    await insertSession(tx, { ...session, id });
    moving = move(1);
    await expect.poll(() => databases[0].waitingForLocks()).toBe(1);
  });
  await moving;
  expect(await readSession(databases[1].sql, id)).toMatchObject({ userId });
});

/** A session of the user, whose row is gone again. */
async function sessionOf({ sql, ownerSql }: TestDatabase) {
  const { sessionId } = await callsOf(replica).logIn();
  const session = await readSession(sql, sessionId);
  if (session === undefined) throw new Error("no session");
  await ownerSql`delete from sessions where id = ${sessionId}`;
  return session;
}

test("calls race with moves to and fro: each succeeds, one chain survives, no session is lost or twice", async () => {
  const other = await start();
  const users = [callsOf(replica), callsOf(other)];
  const begun = await Promise.all(users.map((calls) => calls.logIn()));
  let isMoving = true;
  const use = async (calls: (typeof users)[number], refreshToken: string) => {
    let newest = refreshToken;
    for (let count = 0; isMoving; count += 1) {
      newest = (await calls.refresh(newest)).refreshToken;
      if (count % 10 === 0) await calls.logIn();
    }
    return newest;
  };
  const used = Promise.all(
    begun.map(({ refreshToken }, index) => use(users[index % 2] as (typeof users)[number], refreshToken)),
  );
  for (let count = 0; count < 30; count += 1) await move((count + 1) % 2);
  isMoving = false;
  const last = await used;
  for (const refreshToken of last) await users[0]?.refresh(refreshToken);
  const listed = await listLiveSessions(databases[0].sql, userId);
  expect(await rowsIn(databases[1])).toEqual([]);
  expect(new Set(listed.map(({ id }) => id)).size).toBe(listed.length);
  expect(listed.length).toBeLessThanOrEqual(20);
});

/** Of both databases: holds of a connection run until the given one, which fails before or after its work. */
function dyingAfter(holds: number, when: "before" | "after"): TokenReplica["deps"] {
  let count = 0;
  const dying = (sql: Sql): Sql => {
    const hold: Sql["pool"]["hold"] = async (work) => {
      count += 1;
      if (count > holds || (count === holds && when === "before")) throw new Error("died");
      const result = await sql.pool.hold(work);
      if (count === holds) throw new Error("died");
      return result;
    };
    const pool = new Proxy(sql.pool, {
      get: (target, key) => (key === "hold" ? hold : Reflect.get(target, key)),
    });
    return new Proxy(sql, { get: (target, key) => (key === "pool" ? pool : Reflect.get(target, key)) });
  };
  const [first, second] = replica.deps.parts.all.map((part) => ({ ...part, sql: dying(part.sql) }));
  return {
    ...replica.deps,
    parts: new Parts([first as SessionPart, second as SessionPart], replica.deps.revocations as never),
  };
}

test.each(
  [1, 2, 3].flatMap(
    (holds) =>
      [
        [holds, "before"],
        [holds, "after"],
      ] as const,
  ),
)(
  "a mover that dies at its transaction %i, %s it: the next one finishes, and nothing is lost or twice",
  async (holds, when) => {
    const calls = callsOf(replica);
    const { refreshToken } = await calls.logIn();
    await calls.logIn();
    const before = await rowsIn(databases[0]);
    await expect(move(1, dyingAfter(holds, when))).rejects.toThrow("died");
    const copies = [...(await rowsIn(databases[0])), ...(await rowsIn(databases[1]))];
    expect([0, 2]).toContain(copies.length);
    const settle = createSlotSettler(replica.deps);
    for (const { revocations } of replica.deps.parts.all) await revocations.refresh();
    await settle();
    await settle();
    const [source, target] = [await rowsIn(databases[0]), await rowsIn(databases[1])];
    expect(source.length === 0 || target.length === 0).toBe(true);
    expect([...source, ...target]).toEqual(before);
    // No copy of the sessions, with their secrets, stays behind.
    const states = [await stateIn(databases[0]), await stateIn(databases[1])];
    expect(states.sort()).toEqual([
      ["away", 0],
      ["here", 0],
    ]);
    await calls.refresh(refreshToken);
    await move(1);
    expect([await stateIn(databases[0]), await stateIn(databases[1])]).toEqual([
      ["away", 0],
      ["here", 0],
    ]);
    expect(await rowsIn(databases[1])).toHaveLength(2);
  },
);

test("a token that is verified while its session is on its way waits for it", async () => {
  const { accessToken } = await callsOf(replica).logIn();
  await expect(move(1, dyingAfter(1, "after"))).rejects.toThrow("died");
  for (const { revocations } of replica.deps.parts.all) await revocations.refresh();
  expect(replica.deps.parts.holderOf(slot)).toBeUndefined();
  const verdict = verifyToken({ ...replica.deps, revocations: replica.deps.parts }, accessToken);
  await move(1);
  expect(await verdict).toMatchObject({ active: true });
});

test("a slot that leaves for a part that nobody knows keeps no other one waiting", async () => {
  await callsOf(replica).logIn();
  await expect(move(1, dyingAfter(1, "after"))).rejects.toThrow("died");
  const lower = slot === 0 ? 1 : 0;
  await databases[0].ownerSql`update slots set state = 'leaving', peer = 9 where slot = ${lower}`;
  await databases[0].ownerSql`update part set changes = changes + 1`;
  for (const { revocations } of replica.deps.parts.all) await revocations.refresh();
  const settle = createSlotSettler(replica.deps);
  await settle();
  await expect(settle()).rejects.toThrow(/leaving for part 9, which is not known/);
  expect(await stateIn(databases[1])).toEqual(["here", 0]);
});

test("a slot arrives also where that takes longer than a statement may, once it has left", async () => {
  const { refreshToken } = await callsOf(replica).logIn();
  const { ownerSql, sql, waitingForLocks } = databases[1];
  const { driver, ...options } = sql.pool.options;
  const connection = { ...driver.connection, statement_timeout: 500, lock_timeout: 0 };
  const impatient = openPool({ ...options, driver: { ...driver, connection } });
  onTestFinished(() => impatient.end());
  const parts = new Parts(
    [partOf(replica, 0), { ...partOf(replica, 1), sql: impatient }],
    new RevocationSet(0),
  );
  let moved: ReturnType<typeof move> | undefined;
  await transaction(ownerSql, async (tx) => {
    await tx`lock table sessions in share row exclusive mode`;
    moved = move(1, { ...replica.deps, parts });
    await expect.poll(waitingForLocks).toBeGreaterThan(0);
    await tx`select pg_sleep(1)`;
  });
  expect(await moved).toMatchObject({ sessions: 1 });
  await callsOf(replica).refresh(refreshToken);
});

test("two who move a slot at once move it once", async () => {
  const other = await start();
  const calls = callsOf(replica);
  for (let count = 0; count < 5; count += 1) await calls.logIn();
  const moved = await Promise.all([move(1), move(1, other.deps), move(1), move(1, other.deps)]);
  expect(moved.reduce((sum, { sessions }) => sum + sessions, 0)).toBe(5);
  expect(await rowsIn(databases[1])).toHaveLength(5);
  expect([await stateIn(databases[0]), await stateIn(databases[1])]).toEqual([
    ["away", 0],
    ["here", 0],
  ]);
});

test("a slot that arrives between two reads of the parts is found where it is", async () => {
  let moved: ReturnType<typeof move> | undefined;
  await transaction(databases[0].ownerSql, async (tx) => {
    await tx`lock table slots in access exclusive mode`;
    const moving = move(1);
    // It has read part 1, where nothing is yet, and waits for part 0.
    await expect.poll(databases[0].waitingForLocks).toBeGreaterThan(0);
    await databases[1].ownerSql`update slots set state = 'here', epoch = 1 where slot = ${slot}`;
    await tx`update slots set state = 'away', epoch = 1, peer = 1 where slot = ${slot}`;
    moved = moving;
  });
  expect(await moved).toMatchObject({ sessions: 0 });
});

test("sessions come back to a part that has seen a later epoch: somebody claimed the slot in vain", async () => {
  const calls = callsOf(replica);
  const { refreshToken } = await calls.logIn();
  await move(1);
  await databases[0].ownerSql`update slots set epoch = epoch + 1 where slot = ${slot}`;
  expect(await move(0)).toMatchObject({ sessions: 1 });
  expect(await calls.refresh(refreshToken)).toBeDefined();
});

test("what ended before the move is in the log of the new part, for who reads only that one", async () => {
  const calls = callsOf(replica);
  const { sessionId } = await calls.logIn();
  await calls.endAll();
  await calls.logIn();
  await move(1);
  const batches = partOf(replica, 1).revocations.watch(LOG_BEGIN, new AbortController().signal);
  const { value } = await batches.next();
  expect(value?.revocations.map((each: { sessionId: string | null }) => each.sessionId)).toEqual([sessionId]);
});

test("a database that was restored to before the move gives way to the newer epoch", async () => {
  const calls = callsOf(replica);
  const { refreshToken } = await calls.logIn();
  const backup = await databases[0].backUp();
  await move(1);
  const { refreshToken: newest } = await calls.refresh(refreshToken);
  await databases[0].drop();
  databases[0] = backup;
  const restored = await start();
  expect(restored.deps.parts.holderOf(slot)).toBeUndefined();
  await expect(callsOf(restored).refresh(newest)).rejects.toMatchObject({ code: "service_unavailable" });
  const settle = createSlotSettler(restored.deps);
  await settle();
  await settle();
  expect(await rowsIn(databases[0])).toEqual([]);
  await callsOf(restored).refresh(newest);
  await callsOf(restored).logIn();
  expect(await rowsIn(databases[1])).toHaveLength(2);
  await move(0, restored.deps);
  expect(await rowsIn(databases[0])).toHaveLength(2);
});

test("sessions on their way to a database that was restored replace what it had of them", async () => {
  const calls = callsOf(replica);
  const { refreshToken } = await calls.logIn();
  const backup = await databases[0].backUp();
  await move(1);
  const { refreshToken: newest } = await calls.refresh(refreshToken);
  await expect(move(0, dyingAfter(1, "after"))).rejects.toThrow("died");
  await databases[0].drop();
  databases[0] = backup;
  const restored = await start();
  const settle = createSlotSettler(restored.deps);
  await settle();
  await settle();
  expect([await stateIn(databases[0]), await stateIn(databases[1])]).toEqual([
    ["here", 0],
    ["away", 0],
  ]);
  await callsOf(restored).refresh(newest);
});

test("a slot that no database has any more is taken by one when an operator says so", async () => {
  await move(1);
  await databases[1].ownerSql`update slots set state = 'away', epoch = 0 where slot = ${slot}`;
  await databases[1].ownerSql`update part set changes = changes + 1`;
  for (const { revocations } of replica.deps.parts.all) await revocations.refresh();
  await expect(callsOf(replica).logIn()).rejects.toMatchObject({ code: "service_unavailable" });
  const settle = createSlotSettler(replica.deps);
  await settle();
  await settle();
  expect(await stateIn(databases[1])).toEqual(["away", 0]);
  const other = await start();
  // Both may refuse each other.
  await Promise.allSettled([move(0), move(1, other.deps)]);
  await move(0);
  const states = [await stateIn(databases[0]), await stateIn(databases[1])];
  expect(states.filter(([state]) => state === "here")).toHaveLength(1);
  await callsOf(replica).logIn();
});

test("all sessions of all parts end, also one that moves past the sweep", async () => {
  const calls = callsOf(replica);
  const { sessionId } = await calls.logIn();
  await move(1);
  const others = await Promise.all([calls.logIn(randomUUID()), calls.logIn(randomUUID())]);
  let cursor: SweepPosition | undefined;
  const issuedBefore = new Date(Date.now() + 1_000);
  do {
    const swept = await revokeAllSessions(replica.deps, { issuedBefore, reason: "restored", cursor }, CALL);
    cursor = swept.next;
  } while (cursor !== undefined);
  const rows = [...(await rowsIn(databases[0])), ...(await rowsIn(databases[1]))];
  expect(rows.map((row) => "revoked_reason" in row && row.revoked_reason)).toEqual(
    [sessionId, ...others].map(() => "all_sessions_revoked"),
  );
  // Between two calls of a sweep that has passed part 0.
  const late = await calls.logIn();
  const began = { beganAt: new Date(), part: 1, sessionId: "00000000-0000-0000-0000-000000000000" };
  const changes = await Promise.all(
    replica.deps.parts.all.map(({ sql }) => sql<{ n: number }[]>`select changes::float8 as n from part`),
  );
  cursor = { ...began, changes: changes.reduce((sum, [row]) => sum + (row?.n ?? 0), 0) };
  await move(0);
  const { next } = await revokeAllSessions(replica.deps, { issuedBefore, reason: "restored", cursor }, CALL);
  expect(next).toBeUndefined();
  expect(await readSession(databases[0].sql, late.sessionId)).toMatchObject({ revokedAt: expect.any(Date) });
});

test("all sessions have not ended as long as some are on their way", async () => {
  await callsOf(replica).logIn();
  await expect(move(1, dyingAfter(1, "after"))).rejects.toThrow("died");
  const issuedBefore = new Date(Date.now() + 1_000);
  const endAll = async () => {
    let cursor: SweepPosition | undefined;
    do {
      const swept = await revokeAllSessions(replica.deps, { issuedBefore, reason: "restored", cursor }, CALL);
      cursor = swept.next;
    } while (cursor !== undefined);
  };
  await expect(endAll()).rejects.toMatchObject({
    code: "service_unavailable",
    message: `Sessions of slot ${slot} are being moved`,
  });
  await move(1);
  await endAll();
  expect(await rowsIn(databases[1])).toMatchObject([{ revoked_reason: "all_sessions_revoked" }]);
});

test("without one part all sessions of the others end, and it is named until it is back", async () => {
  const calls = callsOf(replica);
  await calls.logIn();
  await move(1);
  await calls.logIn(randomUUID());
  const [first, second] = replica.deps.parts.all;
  const away = new Proxy(databases[1].sql, {
    get: (target, key) => (key === "pool" ? { hold: () => Promise.reject(AWAY) } : Reflect.get(target, key)),
    apply: () => Promise.reject(AWAY),
  });
  const reversed = { all: [{ ...second, sql: away }, first] as SessionPart[], announce: () => undefined };
  const issuedBefore = new Date(Date.now() + 1_000);
  const endAll = async (parts: { all: readonly SessionPart[]; announce: () => void }) => {
    let cursor: SweepPosition | undefined = {
      beganAt: new Date(),
      part: parts.all[0]?.number ?? 0,
      changes: -1,
      sessionId: "00000000-0000-0000-0000-000000000000",
    };
    while (cursor !== undefined) {
      const deps = { ...replica.deps, parts: parts as TokenReplica["deps"]["parts"] };
      const swept = await revokeAllSessions(deps, { issuedBefore, reason: "restored", cursor }, CALL);
      cursor = swept.next;
    }
  };
  await expect(endAll(reversed)).rejects.toMatchObject({
    code: "service_unavailable",
    message: "Part 1 does not answer: its sessions go on",
  });
  const ended = async ({ ownerSql }: TestDatabase) =>
    (await ownerSql<{ ended: boolean }[]>`select revoked_at is not null as ended from sessions`).map(
      (row) => row.ended,
    );
  expect([await ended(databases[0]), await ended(databases[1])]).toEqual([[true], [false]]);
  await endAll(replica.deps.parts);
  expect(await ended(databases[1])).toEqual([true]);
});

test("a part that is silent refuses its own users, and nobody else", async () => {
  const calls = callsOf(replica);
  const { accessToken, sessionId } = await calls.logIn();
  const neighbour = await calls.logIn(randomUUID());
  expect(slotOfSession(neighbour.sessionId)).not.toBe(slotOfSession(sessionId));
  await move(1);
  for (const { revocations } of replica.deps.parts.all) await revocations.refresh();
  const deps = { ...replica.deps, revocations: replica.deps.parts };
  const verdicts = () =>
    Promise.allSettled([verifyToken(deps, accessToken), verifyToken(deps, neighbour.accessToken)]);
  expect(await verdicts()).toMatchObject([{ value: { active: true } }, { value: { active: true } }]);
  await databases[1].sql.end({ timeout: 0 });
  await expect.poll(() => partOf(replica, 1).revocations.isFresh).toBe(false);
  expect(await verdicts()).toMatchObject([
    { reason: { code: "service_unavailable" } },
    { value: { active: true } },
  ]);
  await expect(calls.logIn()).rejects.toMatchObject({ code: "service_unavailable" });
  await calls.refresh(neighbour.refreshToken);
});
