import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import {
  logIn,
  startTokenReplica,
  type TokenReplica,
  type TokenReplicaOptions,
} from "../tests/support/token-service.ts";
import { createMemoryBell, type RevocationBell } from "./revocation-bell.ts";
import type { RevocationBatch } from "./revocation-feed.ts";
import { revokeSession } from "./revoke-session.ts";
import { verifyToken } from "./verify-token.ts";

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

test("two hundred revocations that race are numbered without gaps, in the order of their commits", async () => {
  const replica = await start();
  await Promise.all(Array.from({ length: 200 }, () => endNewSession(replica)));
  const rows = await database.sql<{ sequence: string }[]>`select sequence from revocations order by sequence`;
  expect(rows.map(({ sequence }) => Number(sequence))).toEqual(
    Array.from({ length: 200 }, (_, index) => index + 1),
  );
});

test("a watcher is told of everything, those before and those after, once and in order", async () => {
  const replica = await start();
  for (let index = 0; index < 3; index += 1) await endNewSession(replica);
  const abort = new AbortController();
  const collecting = collect(replica.deps.revocations.watch(0, abort.signal), (seen) => seen.length >= 6);
  await Promise.all(Array.from({ length: 3 }, () => endNewSession(replica)));
  expect(await collecting).toEqual([1, 2, 3, 4, 5, 6]);
});

test("a watcher that comes back is told only what it has missed, by any replica", async () => {
  const first = await start();
  for (let index = 0; index < 4; index += 1) await endNewSession(first);
  const second = await start();
  const seen = await collect(second.deps.revocations.watch(2, new AbortController().signal), () => true);
  expect(seen).toEqual([3, 4]);
});

test("a long backlog comes in batches, and only the last says that it is all", async () => {
  const replica = await start();
  await database.sql`update revocation_head set sequence = 1200`;
  await database.sql`
    insert into revocations (sequence, session_id, expires_at)
    select n, gen_random_uuid(), now() + interval '10 minutes' from generate_series(1, 1200) as n
  `;
  const sizes: [number, boolean][] = [];
  for await (const { revocations, caughtUp } of replica.deps.revocations.watch(
    0,
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

test("a watcher ahead of a database that was restored from a backup is told everything again", async () => {
  const replica = await start();
  await endNewSession(replica);
  const seen = await collect(replica.deps.revocations.watch(1_000, new AbortController().signal), () => true);
  expect(seen).toEqual([1]);
});

test("with no bell at all, another replica refuses the session by its next poll", async () => {
  const first = await start({ bell: deafBell });
  const second = await start({ bell: deafBell });
  const userId = randomUUID();
  const { sessionId, accessToken } = await logIn(first, userId);
  expect(await verifyToken(second.deps, accessToken)).toMatchObject({ active: true });
  await revokeSession(first.deps, { sessionId, userId, reason: "logout" });
  await expect.poll(() => second.deps.revocations.isSessionRevoked(sessionId), { timeout: 5_000 }).toBe(true);
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
    .poll(() => verifyToken(replica.deps, accessToken).catch((error: { code: string }) => error.code), {
      timeout: 6_000,
    })
    .toBe("service_unavailable");
  await database.ownerSql`alter table gone rename to revocation_head`;
  await expect
    .poll(() => verifyToken(replica.deps, accessToken).catch(() => undefined))
    .toMatchObject({ active: true });
});

test("a revocation is forgotten once no token can be alive, and not before", async () => {
  const clock = { ms: Date.now() };
  const replica = await start({ clock });
  const sessionId = await endNewSession(replica);
  clock.ms += 905_000;
  await replica.deps.revocations.refresh();
  expect(replica.deps.revocations.isSessionRevoked(sessionId)).toBe(true);
  clock.ms += 10_000;
  await replica.deps.revocations.refresh();
  expect(replica.deps.revocations.isSessionRevoked(sessionId)).toBe(false);
});
