import { createSecretKey, type KeyObject, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { withCallDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  logIn,
  startTokenReplica,
  type TokenReplica,
  type TokenReplicaOptions,
} from "#tests/support/system/token-service.ts";
import { parseCompactJws } from "#token-client/compact-jws.ts";
import type { RevocationBell } from "../revocations/revocation-bell.ts";
import {
  advanceLiveGeneration,
  lockSession,
  markSessionsRevoked,
  raiseAssurance,
  readSession,
} from "../rows/session-store.ts";
import { createTokenRpc } from "../token-rpc.ts";
import { authenticateCompactJws, signCompactJws } from "../tokens/jws-signature.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { refreshSession } from "./refresh-session.ts";
import { revokeSession, revokeUserSessions } from "./revoke-session.ts";

let database: TestDatabase;
const replicas: TokenReplica[] = [];
const origin = { ip: "192.0.2.2", userAgent: "test", requestId: "r", traceId: "t" };

beforeAll(async () => {
  database = await createTestDatabase("token-service");
});

afterAll(async () => {
  for (const replica of replicas) replica.stop();
  await database.drop();
});

async function start(options: TokenReplicaOptions = {}): Promise<TokenReplica> {
  const replica = await startTokenReplica(database.sql, options);
  replicas.push(replica);
  return replica;
}

async function seedSession(options: TokenReplicaOptions = {}) {
  const replica = await start(options);
  const userId = randomUUID();
  const pair = await logIn(replica, userId);
  const refresh = (token: string) => refreshSession(replica.deps, token, origin);
  const use = async (token: string) => {
    const verdict = await verifyToken(replica.deps, token);
    await replica.deps.leaves.flush();
    return verdict;
  };
  return { replica, userId, pair, refresh, use };
}

async function rowOf(sessionId: string) {
  const [row] = await database.sql<{ generation: number; revokedReason: string | null; leafSeen: boolean }[]>`
    select generation, revoked_reason as "revokedReason", leaf_seen as "leafSeen" from sessions where id = ${sessionId}
  `;
  if (row === undefined) throw new Error("the session is gone");
  return row;
}

test("a hundred refreshes race over three replicas: one chain survives and everyone holds its leaf", async () => {
  const { pair, replica } = await seedSession();
  const all = [replica, await start(), await start()];

  const results = await Promise.all(
    Array.from({ length: 100 }, (_, index) =>
      // All wait for one row: on a busy machine some get no answer in time, and ask again as a client would.
      vi.waitUntil(
        async () =>
          refreshSession((all[index % 3] ?? replica).deps, pair.refreshToken, origin).catch(
            (error: unknown) => {
              if (error instanceof DomainError && error.code === "service_unavailable") return undefined;
              throw error;
            },
          ),
        { timeout: 60_000 },
      ),
    ),
  );

  expect(new Set(results.map(({ refreshToken }) => refreshToken)).size).toBe(1);
  expect(new Set(results.map(({ accessToken }) => accessToken)).size).toBe(1);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 2, revokedReason: null });
});

test("an answer that was lost can be fetched again a minute later, as long as its leaf was never used", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh } = await seedSession({ clock });

  const lost = await refresh(pair.refreshToken);
  clock.ms += 60_000;
  const again = await refresh(pair.refreshToken);

  expect(again.refreshToken).toBe(lost.refreshToken);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 2 });
});

test("a repeated refresh after the access token has expired returns a new one", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use } = await seedSession({ clock });

  const lost = await refresh(pair.refreshToken);
  clock.ms += 3_600_000;
  const again = await refresh(pair.refreshToken);

  expect(again.refreshToken).toBe(lost.refreshToken);
  expect(await use(lost.accessToken)).toMatchObject({ active: false, refusal: "exp" });
  expect(await use(again.accessToken)).toMatchObject({ active: true });
});

test("refreshes of one session hold one connection, and a stranger's goes through at once", async () => {
  const { replica, pair } = await seedSession();
  const stranger = await logIn(replica, randomUUID());
  const refreshes: Promise<unknown>[] = [];
  // The test's pool has three connections.
  await database.ownerSql.pool.hold((connection) =>
    connection.driver.begin(async (tx) => {
      await lockSession(tx, pair.sessionId);
      for (let call = 0; call < 100; call += 1) {
        const proven = { jkt: `key ${call % 10}`, x5tS256: "" };
        const refreshing = refreshSession(replica.deps, pair.refreshToken, { ...origin, proven });
        refreshes.push(refreshing.catch(() => undefined));
      }
      await expect.poll(() => database.waitingForLocks()).toBe(1);
      const next = await refreshSession(replica.deps, stranger.refreshToken, origin);
      expect(next.sessionId).toBe(stranger.sessionId);
      expect(await database.waitingForLocks()).toBe(1);
    }),
  );
  await Promise.all(refreshes);
});

test("however many calls are refused for want of the session's key, its owner has a place", async () => {
  const replica = await start();
  const owner = { jkt: "o".repeat(43), x5tS256: "" };
  const pair = await logIn(replica, randomUUID(), "USER", owner);
  const refresh = (proven?: typeof owner) =>
    refreshSession(replica.deps, pair.refreshToken, { ...origin, proven });
  const thefts: Promise<unknown>[] = [];
  const { owned } = await database.ownerSql.pool.hold((connection) =>
    connection.driver.begin(async (tx) => {
      await lockSession(tx, pair.sessionId);
      // One refresh has begun, so that everybody else waits in the queue.
      const owned = [refresh(owner)];
      await expect.poll(() => database.waitingForLocks()).toBe(1);
      for (let key = 0; key < 100; key += 1) {
        const proven = { jkt: String(key).padStart(43, "k"), x5tS256: "" };
        thefts.push(refresh(key === 0 ? undefined : proven).catch((error: unknown) => error));
      }
      owned.push(refresh(owner));
      await new Promise(setImmediate);
      expect(await database.waitingForLocks()).toBe(1);
      return { owned: Promise.all(owned) };
    }),
  );
  const [first, second] = await owned;
  expect(second?.refreshToken).toBe(first?.refreshToken);
  for (const theft of await Promise.all(thefts))
    expect(theft).toMatchObject({ code: "refresh_token_invalid" });
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 2, revokedReason: null });
});

test("a call that goes away takes nobody along who shares its work", async () => {
  const { replica, pair, refresh } = await seedSession();
  const calls: Promise<unknown>[] = [];
  const caller = new AbortController();
  await database.ownerSql.pool.hold((connection) =>
    connection.driver.begin(async (tx) => {
      await lockSession(tx, pair.sessionId);
      calls.push(refresh(pair.refreshToken));
      await expect.poll(() => database.waitingForLocks()).toBe(1);
      const isOpen = [new AbortController().signal, caller.signal].reverse();
      for (const gone of isOpen)
        calls.push(withCallDeadline(Date.now() + 60_000, () => refresh(pair.refreshToken), gone));
      caller.abort();
    }),
  );
  const [first, , last] = (await Promise.all(calls)) as { refreshToken: string }[];
  expect(last?.refreshToken).toBe(first?.refreshToken);
  expect(replica.refreshes).toEqual(["rotated", "repeated", "shared"]);
});

test("100 parallel refreshes of one session are all answered, with the same pair", async () => {
  const { pair, refresh } = await seedSession();
  const next = await Promise.all(Array.from({ length: 100 }, () => refresh(pair.refreshToken)));
  expect(new Set(next.map(({ refreshToken }) => refreshToken)).size).toBe(1);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 2 });
});

test("a parent presented after its leaf was used and the grace is over ends the session", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use, replica } = await seedSession({ clock });

  const leaf = await refresh(pair.refreshToken);
  await use(leaf.accessToken);
  clock.ms += 10_000;

  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_reused" });
  await expect(refresh(leaf.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });
  await replica.deps.revocations.refresh(); // the end is committed; this replica reads it a moment later
  expect(await use(leaf.accessToken)).toMatchObject({ active: false, refusal: "revoked" });
  expect(await rowOf(pair.sessionId)).toMatchObject({ revokedReason: "refresh_reuse" });
});

test("an old token ends no session when its caller has gone: it was stuck on its way, and repeated since", async () => {
  const clock = { ms: Date.now() };
  const { pair, use, replica } = await seedSession({ clock });
  const leaf = await refreshSession(replica.deps, pair.refreshToken, origin);
  await use(leaf.accessToken);
  clock.ms += 12_000;

  const caller = new AbortController();
  // The server has read the call, and that it was given up only when the session is locked.
  let reads = 0;
  const now = () => {
    reads += 1;
    if (reads === 2) caller.abort();
    return new Date(clock.ms);
  };
  const stuck = () => refreshSession({ ...replica.deps, now }, pair.refreshToken, origin);
  const late = withCallDeadline(Date.now() + 60_000, stuck, caller.signal);
  await expect(late).rejects.toMatchObject({ code: "service_unavailable" });
  expect(reads).toBe(2);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 2, revokedReason: null });
});

test("a lost answer can be fetched again in the second round as in the first", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use } = await seedSession({ clock });
  await use(pair.accessToken);
  const second = await refresh(pair.refreshToken);
  await use(second.accessToken);
  const lost = await refresh(second.refreshToken);
  clock.ms += 60_000;
  expect((await refresh(second.refreshToken)).refreshToken).toBe(lost.refreshToken);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 3, revokedReason: null, leafSeen: false });
});

test("an access token of before a refresh that is seen late does not make its lost answer a theft", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use } = await seedSession({ clock });
  const lost = await refresh(pair.refreshToken);
  await use(pair.accessToken);
  clock.ms += 60_000;
  expect((await refresh(pair.refreshToken)).refreshToken).toBe(lost.refreshToken);
});

test("no token outlives its session's last day", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use } = await seedSession({ clock });
  const end = new Date(Math.floor(clock.ms / 1_000) * 1_000 + 60_000);
  await database.ownerSql`
    update sessions set absolute_end = ${end}, idle_end = ${end} where id = ${pair.sessionId}
  `;
  const last = await refresh(pair.refreshToken);
  expect(last.expiresInS).toBeLessThanOrEqual(60);
  for (const token of [last.accessToken, last.refreshToken]) {
    expect(parseCompactJws(token)).toMatchObject({ payload: { exp: end.getTime() / 1_000 } });
  }
  clock.ms += 66_000;
  expect(await use(last.accessToken)).toMatchObject({ active: false, refusal: "exp" });
  await expect(refresh(last.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });
});

test("a reuse rings the bell for the other replicas; a refresh that ends nothing does not", async () => {
  let rings = 0;
  const bell: RevocationBell = {
    ring: () => {
      rings += 1;
    },
    onRing: () => undefined,
    close: async () => undefined,
  };
  const { pair, refresh } = await seedSession({ bell });
  const second = await refresh(pair.refreshToken);
  await refresh(second.refreshToken);
  expect(rings).toBe(0);
  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_reused" });
  expect(rings).toBe(1);
});

test("while the clock is wrong nothing is signed and nothing is changed; afterwards the same token does", async () => {
  let isWrong = false;
  const assertClock = () => {
    if (isWrong) throw new DomainError("service_unavailable");
  };
  const { pair, refresh, use, replica } = await seedSession({ assertClock });
  isWrong = true;
  const userId = randomUUID();
  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(logIn(replica, userId)).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(use(pair.accessToken)).rejects.toMatchObject({ code: "service_unavailable" });
  const { getJwks } = createTokenRpc({ ...replica.deps, revocations: replica.deps.parts });
  await expect(getJwks({}, newCallContext() as RpcContext)).rejects.toMatchObject({
    code: "service_unavailable",
  });
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 1, revokedReason: null });
  expect(await database.sql`select 1 from sessions where user_id = ${userId}`).toHaveLength(0);
  isWrong = false;
  expect((await getJwks({}, newCallContext() as RpcContext)).jwksJson).toContain('"kid"');
  await refresh(pair.refreshToken);
  expect(await use(pair.accessToken)).toMatchObject({ active: true });
});

test("a clock that is found wrong while a call waits for the database signs nothing", async () => {
  let looks = 0;
  const assertClock = () => {
    looks += 1;
    if (looks % 2 === 0) throw new DomainError("service_unavailable");
  };
  const replica = await start({ assertClock });
  await expect(logIn(replica, randomUUID())).rejects.toMatchObject({ code: "service_unavailable" });
});

test("a refresh token that is not yet one is refused", async () => {
  const { pair, refresh, replica } = await seedSession();
  const signed = (nbf: number) => reauthenticated(replica, pair.refreshToken, { nbf });
  const nowS = Math.floor(Date.now() / 1_000);
  await expect(refresh(signed(nowS + 60))).rejects.toMatchObject({ code: "refresh_token_invalid" });
  await expect(refresh(signed(nowS))).resolves.toBeDefined();
});

test("within the grace a parent gets its used leaf again, and the grace is never extended", async () => {
  const clock = { ms: Date.now() };
  const { pair, refresh, use } = await seedSession({ clock });

  const leaf = await refresh(pair.refreshToken);
  await use(leaf.accessToken);
  clock.ms += 6_000;
  expect((await refresh(pair.refreshToken)).refreshToken).toBe(leaf.refreshToken);
  clock.ms += 6_000;

  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_reused" });
});

test("with a grace of zero a parent is reuse as soon as its leaf was used", async () => {
  const { pair, refresh, use } = await seedSession({ refreshGraceS: 0 });

  const leaf = await refresh(pair.refreshToken);
  expect((await refresh(pair.refreshToken)).refreshToken).toBe(leaf.refreshToken);
  await use(leaf.accessToken);

  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_reused" });
});

test("a grandparent is reuse, whatever was seen and however soon", async () => {
  const { pair, refresh } = await seedSession();

  const second = await refresh(pair.refreshToken);
  await refresh(second.refreshToken);

  await expect(refresh(pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_reused" });
});

test("three rotations in one second and a restart change nothing", async () => {
  const clock = { ms: 1_800_000_000_000 };
  const { pair, refresh } = await seedSession({ clock });

  const second = await refresh(pair.refreshToken);
  const third = await refresh(second.refreshToken);
  const restarted = await start({ clock });
  const fourth = await refreshSession(restarted.deps, third.refreshToken, origin);

  const texts = [pair, second, third, fourth].map(({ refreshToken }) => refreshToken);
  expect(new Set(texts).size).toBe(4);
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 4, revokedReason: null });
});

test("a used leaf is written once", async () => {
  const { pair, use, replica } = await seedSession();
  const { sql } = database;
  await use(pair.accessToken);
  const [before] = await sql<
    { xmin: string }[]
  >`select xmin::text from sessions where id = ${pair.sessionId}`;
  replica.deps.verified.clear();
  await use(pair.accessToken);
  const other = await start();
  await verifyToken(other.deps, pair.accessToken);
  await other.deps.leaves.flush();
  const [after] = await sql<{ xmin: string }[]>`select xmin::text from sessions where id = ${pair.sessionId}`;

  expect(after).toEqual(before);
  expect(await rowOf(pair.sessionId)).toMatchObject({ leafSeen: true });
});

test("a session ends idle after 7 days, and after 30 days however often it is refreshed", async () => {
  const day = 86_400_000;
  const clock = { ms: Date.now() };
  const { pair, refresh } = await seedSession({ clock });
  const idle = await seedSession({ clock });

  let current = pair;
  for (let days = 0; days < 30; days += 6) {
    if (days > 0) current = await refresh(current.refreshToken);
    clock.ms += 6 * day;
  }

  await expect(refresh(current.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });
  await expect(idle.refresh(idle.pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });
});

test.each([
  ["an access token", (pair: { accessToken: string }) => pair.accessToken],
  ["nothing", () => ""],
  ["a truncated token", (pair: { refreshToken: string }) => pair.refreshToken.slice(0, -1)],
  ["ten kilobytes", () => "a".repeat(10_240)],
] as const)("%s is no refresh token", async (_name, forge) => {
  const { pair, refresh } = await seedSession();
  await expect(refresh(forge(pair))).rejects.toMatchObject({ code: "refresh_token_invalid" });
});

/** Holds the session's row, lets a refresh run into it, changes the row as somebody else would, and lets go. */
async function refreshWhile(
  sessionId: string,
  refresh: () => Promise<unknown>,
  change: (tx: TransactionSql) => Promise<void>,
): Promise<unknown> {
  const { result } = await transaction(database.sql, async (tx) => {
    await lockSession(tx, sessionId);
    const waiting = refresh().catch((error: unknown) => error);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBeGreaterThan(0);
    await change(tx);
    return { result: waiting };
  });
  return result;
}

test("a refresh that had to wait decides by what the other has committed, not by what it saw before", async () => {
  const { pair, refresh } = await seedSession();
  const later = {
    rotatedAt: new Date(),
    idleEnd: new Date(Date.now() + 60_000),
    ip: "",
    userAgent: "",
  };
  const result = await refreshWhile(
    pair.sessionId,
    () => refresh(pair.refreshToken),
    async (tx) => {
      let session = await readSession(tx, pair.sessionId);
      for (let times = 0; times < 2 && session !== undefined; times += 1)
        session = await advanceLiveGeneration(tx, session, later);
    },
  );
  expect(result).toMatchObject({ code: "refresh_token_reused" });
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 3, revokedReason: "refresh_reuse" });
});

test("a refresh that had to wait for a step-up gives tokens of the level that was reached", async () => {
  const { pair, refresh } = await seedSession();
  const raised = { acr: 2, amr: ["pwd", "otp", "mfa"], authTime: new Date() } as const;
  const result = await refreshWhile(
    pair.sessionId,
    () => refresh(pair.refreshToken),
    (tx) => raiseAssurance(tx, pair.sessionId, { ...raised, amr: [...raised.amr] }),
  );
  const jws = parseCompactJws((result as typeof pair).accessToken);
  expect(jws).toMatchObject({ payload: { acr: "urn:gatehouse:acr:2", amr: raised.amr } });
});

test("a refresh that had to wait for a logout gets nothing", async () => {
  const { pair, refresh } = await seedSession();
  const result = await refreshWhile(
    pair.sessionId,
    () => refresh(pair.refreshToken),
    (tx) => markSessionsRevoked(tx, [pair.sessionId], "logout", new Date()),
  );
  expect(result).toMatchObject({ code: "refresh_token_invalid" });
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 1, revokedReason: "logout" });
});

test("a refresh that had to wait for longer than the session rests gets nothing", async () => {
  const { pair, refresh } = await seedSession();
  const result = await refreshWhile(
    pair.sessionId,
    () => refresh(pair.refreshToken),
    async (tx) => {
      await tx`update sessions set idle_end = now() - interval '1 second' where id = ${pair.sessionId}`;
    },
  );
  expect(result).toMatchObject({ code: "refresh_token_invalid" });
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 1 });
});

/** On a busy machine a part may be unavailable for a moment, which says nothing of what is decided. */
async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== "service_unavailable" || attempt === 20)
        throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

test("refresh against revoke, 1,000 rounds: no refresh succeeds after the answer, no token lives on", {
  tags: "exhaustive",
  timeout: 600_000,
}, async () => {
  const replica = await start();
  const other = await start();
  const rounds = 1_000;
  const inParallel = 8;
  let livingAfterwards = 0;
  let succeededAfterwards = 0;

  async function round(index: number): Promise<void> {
    const userId = randomUUID();
    const pair = await patiently(() => logIn(replica, userId));
    let isRevoked = false;
    const refreshing = Array.from({ length: 2 }, async (_, nth) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
      const startedAfterwards = isRevoked;
      try {
        const next = await refreshSession((nth === 0 ? replica : other).deps, pair.refreshToken, origin);
        if (startedAfterwards) succeededAfterwards += 1;
        return next;
      } catch {
        return undefined; // refused: the revocation came first
      }
    });
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 5));
    await patiently<unknown>(() =>
      index % 2 === 0
        ? revokeSession(other.deps, { sessionId: pair.sessionId, userId, reason: "logout" })
        : revokeUserSessions(other.deps, { userId, reason: "logout" }),
    );
    isRevoked = true;
    const pairs = [pair, ...(await Promise.all(refreshing)).flatMap((next) => next ?? [])];
    await patiently(() => replica.deps.revocations.refresh());
    for (const { accessToken, refreshToken } of pairs) {
      const verdict = await patiently(() => verifyToken(replica.deps, accessToken));
      if (verdict.active) livingAfterwards += 1;
      await expect(patiently(() => refreshSession(replica.deps, refreshToken, origin))).rejects.toMatchObject(
        { code: "refresh_token_invalid" },
      );
    }
  }

  for (let index = 0; index < rounds; index += inParallel) {
    await Promise.all(Array.from({ length: inParallel }, (_, nth) => round(index + nth)));
  }
  expect({ livingAfterwards, succeededAfterwards }).toEqual({
    livingAfterwards: 0,
    succeededAfterwards: 0,
  });
});

test("a session can be refreshed up to its idle end, and not at it", async () => {
  const clock = { ms: Date.now() };
  const [before, at] = [await seedSession({ clock }), await seedSession({ clock })];
  clock.ms += 604_799_999;
  await expect(before.refresh(before.pair.refreshToken)).resolves.toBeDefined();
  clock.ms += 1;
  await expect(at.refresh(at.pair.refreshToken)).rejects.toMatchObject({ code: "refresh_token_invalid" });
});

test("every refresh is counted by what came of it", async () => {
  const { pair, refresh, replica } = await seedSession();
  const second = await refresh(pair.refreshToken);
  await refresh(pair.refreshToken);
  await refresh(second.refreshToken);
  await refresh(pair.refreshToken).catch(() => undefined);
  await refresh("garbage").catch(() => undefined);
  expect(replica.refreshes).toEqual(["rotated", "repeated", "rotated", "reused", "invalid"]);
});

test("of the calls that share a rotation one counts as the rotation", async () => {
  const { pair, refresh, replica } = await seedSession();
  await Promise.all(Array.from({ length: 100 }, () => refresh(pair.refreshToken)));
  const counted = (result: string) => replica.refreshes.filter((each) => each === result).length;
  expect([counted("rotated"), counted("shared")]).toEqual([1, 99]);
});

test("a reuse that is presented many times at once is announced once, and all are refused for it", async () => {
  const { pair, refresh, replica } = await seedSession();
  await refresh((await refresh(pair.refreshToken)).refreshToken);
  replica.refreshes.length = 0;
  const announced: string[] = [];
  const deps = {
    ...replica.deps,
    onSecurityEvent: () => void announced.push("event"),
    revocations: { announce: () => void announced.push("revocation") },
    logger: { ...replica.deps.logger, warn: () => void announced.push("log") } as never,
  };
  const all = Array.from({ length: 20 }, () => refreshSession(deps, pair.refreshToken, origin));
  for (const result of await Promise.allSettled(all))
    expect(result).toMatchObject({ reason: { code: "refresh_token_reused" } });
  expect(announced.toSorted()).toEqual(["event", "log", "revocation"]);
  expect(replica.refreshes.toSorted()).toEqual(["reused", ...Array(19).fill("shared")]);
});

test("a reuse leaves word of whose session it was and where it came from, and says that there is an event", async () => {
  const { pair, refresh, replica, userId } = await seedSession();
  const second = await refresh(pair.refreshToken);
  await refresh(second.refreshToken);
  let events = 0;
  const onSecurityEvent = () => {
    events += 1;
  };
  await refreshSession({ ...replica.deps, onSecurityEvent }, pair.refreshToken, origin).catch(
    () => undefined,
  );
  expect(events).toBe(1);
  const rows = await database.ownerSql`
    select type, session_id as "sessionId", key_id as "keyId", reason, ip, user_agent as "userAgent",
           request_id as "requestId", trace_id as "traceId"
    from security_events where user_id = ${userId} and type <> 'session_ended'`;
  const { sessionId } = pair;
  expect([...rows]).toEqual([{ type: "refresh_reuse", sessionId, keyId: null, reason: "", ...origin }]);
});

/** A refresh token with changed claims, under the secret of our own key. */
function reauthenticated(replica: TokenReplica, token: string, changes: object, type = "rt+jwt"): string {
  const { id, refreshSecret: secret } = replica.deps.keys.active();
  return authenticateCompactJws({ id, secret }, type, { ...payloadOf(token), ...changes });
}

function payloadOf(token: string): Record<string, unknown> {
  const jws = parseCompactJws(token);
  if (typeof jws === "string") throw new Error(jws);
  return jws.payload;
}

test("a refresh token is bound to its user, its session, its generation, its type and all its text", async () => {
  const { pair, refresh, replica } = await seedSession();
  const other = await seedSession();
  const { refreshToken } = pair;
  const end = refreshToken.lastIndexOf(".") + 1;
  const ofAnother = other.pair.refreshToken;
  const signed = signCompactJws(replica.deps.keys.active(), "rt+jwt", payloadOf(refreshToken));
  const forged = [
    reauthenticated(replica, refreshToken, { sub: other.userId }),
    reauthenticated(replica, refreshToken, { sid: other.pair.sessionId }),
    reauthenticated(replica, refreshToken, { sid: randomUUID() }),
    reauthenticated(replica, refreshToken, { gen: 2 }),
    reauthenticated(replica, refreshToken, {}, "at+jwt"),
    refreshToken.slice(0, end) + ofAnother.slice(ofAnother.lastIndexOf(".") + 1),
    signed,
  ];
  for (const token of forged) {
    await expect(refresh(token)).rejects.toMatchObject({ code: "refresh_token_invalid" });
  }
  expect(await rowOf(pair.sessionId)).toMatchObject({ generation: 1, revokedReason: null });
  await expect(refresh(reauthenticated(replica, refreshToken, {}))).resolves.toBeDefined();
});

test("a refresh token is authenticated by a secret that no other key has, and that is no public key", async () => {
  const { pair, refresh, replica } = await seedSession();
  const { id, publicKey } = replica.deps.keys.active();
  expect(headerOf(pair.refreshToken)).toEqual({ alg: "HS256", typ: "rt+jwt", kid: id });
  expect(headerOf(pair.accessToken)).toEqual({ alg: "EdDSA", typ: "at+jwt", kid: id });
  const next = replica.deps.keys.list().find(({ state }) => state === "next")?.refreshSecret;
  const known = [
    publicKey.export({ format: "der", type: "spki" }),
    Buffer.from(String(publicKey.export({ format: "jwk" }).x), "base64url"),
    Buffer.from(id, "base64url"),
    Buffer.alloc(32),
  ];
  for (const secret of [next as KeyObject, ...known.map((bytes) => createSecretKey(bytes))]) {
    const forged = authenticateCompactJws({ id, secret }, "rt+jwt", payloadOf(pair.refreshToken));
    await expect(refresh(forged)).rejects.toMatchObject({ code: "refresh_token_invalid" });
  }
  await expect(refresh(pair.refreshToken)).resolves.toBeDefined();
});

const headerOf = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString()) as object;

test("a malformed key name causes no look-up of a key", async () => {
  const { pair, replica } = await seedSession();
  const [, payload, signature] = pair.refreshToken.split(".");
  const header = Buffer.from(JSON.stringify({ alg: "EdDSA", typ: "rt+jwt", kid: "../x" })).toString(
    "base64url",
  );
  const findAgain = () => Promise.reject(new Error("looked"));
  const deps = {
    ...replica.deps,
    keys: {
      ...replica.deps.keys,
      active: () => replica.deps.keys.active(),
      find: () => undefined,
      findAgain,
    },
  };
  await expect(refreshSession(deps, `${header}.${payload}.${signature}`, origin)).rejects.toMatchObject({
    code: "refresh_token_invalid",
  });
});

test("a refresh token of an unknown key is refused like any other foreign token", async () => {
  const { pair, refresh } = await seedSession();
  const [, payload, signature] = pair.refreshToken.split(".");
  const kid = "A".repeat(43);
  const header = Buffer.from(JSON.stringify({ alg: "EdDSA", typ: "rt+jwt", kid })).toString("base64url");
  await expect(refresh(`${header}.${payload}.${signature}`)).rejects.toMatchObject({
    code: "refresh_token_invalid",
  });
});

test("a pair that is given again is noted as signed, once in ten seconds", async () => {
  const { pair, refresh } = await seedSession();
  await refresh(pair.refreshToken);
  await database.ownerSql`
    update sessions set last_signed_at = now() - interval '1 hour' where id = ${pair.sessionId}`;
  const signed = async () => {
    const [row] = await database.ownerSql<{ at: string; isRecent: boolean }[]>`
      select last_signed_at::text as at, last_signed_at > clock_timestamp() - interval '1 minute' as "isRecent"
      from sessions where id = ${pair.sessionId}`;
    return row;
  };
  await refresh(pair.refreshToken);
  const noted = await signed();
  expect(noted?.isRecent).toBe(true);
  await refresh(pair.refreshToken);
  expect(await signed()).toEqual(noted);
});
