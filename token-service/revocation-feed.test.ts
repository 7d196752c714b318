import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Sql } from "../service-kit/postgres.ts";
import type { RevocationBell } from "./revocation-bell.ts";
import { RevocationFeed } from "./revocation-feed.ts";
import { LOG_BEGIN, type LogPosition } from "./revocation-store.ts";

/** The log in memory; `revocation-feed.db.test.ts` uses the real one. */
interface Entry {
  sequence: number;
  tip: string;
  sessionId: string | null;
  keyId: string | null;
  remainingS: number;
}

const entry = (sequence: number, changes: Partial<Entry> = {}): Entry => ({
  sequence,
  tip: `tip ${sequence}`,
  sessionId: `session ${sequence}`,
  keyId: null,
  remainingS: 910,
  ...changes,
});
const READ_AT = new Date("2026-01-01T00:00:00Z");
let feeds: RevocationFeed[];

beforeEach(() => {
  feeds = [];
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  for (const feed of feeds) feed.stop();
  vi.useRealTimers();
});

function open(entries: Entry[] = []) {
  const log = {
    entries,
    keys: [{ keyId: "k", algorithm: "EdDSA" }],
    reads: 0,
    isAway: false,
    wait: Promise.resolve(),
  };
  const uptime = { ms: 50_000 };
  const rings: (() => void)[] = [];
  const sent = { rings: 0 };
  const bell: RevocationBell = {
    ring: () => {
      sent.rings += 1;
    },
    onRing: (listener) => void rings.push(listener),
    close: async () => undefined,
  };
  const sql = (async (_strings: TemplateStringsArray, ...values: unknown[]) => {
    log.reads += 1;
    await log.wait;
    if (log.isAway) throw new Error("away");
    const [after, tip] = values as [number, string];
    const head = log.entries.at(-1) ?? { sequence: 0, tip: "" };
    const known = log.entries.find(({ sequence }) => sequence === after);
    const isContinued = after <= head.sequence && (tip === "" || tip === known?.tip);
    const news = log.entries.filter(({ sequence }) => sequence > (isContinued ? after : 0));
    const facts = { isContinued, keys: log.keys };
    return [
      { facts, sequence: String(head.sequence), tip: head.tip, expiresAt: READ_AT },
      ...news.map((each) => ({ ...each, facts: null, sequence: String(each.sequence), expiresAt: READ_AT })),
    ];
  }) as unknown as Sql;
  const banned: string[] = [];
  const keySets: (readonly unknown[])[] = [];
  const logged: { msg: string }[] = [];
  const feed = new RevocationFeed({
    sql,
    bell,
    logger: pino({ base: null }, { write: (line) => void logged.push(JSON.parse(line)) }),
    accessTtlS: 900,
    onKeyRevoked: (keyId) => banned.push(keyId),
    onKeys: (keys) => keySets.push(keys),
    nowMs: () => uptime.ms,
  });
  feeds.push(feed);
  return { feed, log, uptime, rings, sent, banned, keySets, logged };
}

const many = (count: number) => Array.from({ length: count }, (_, index) => entry(index + 1));

/** The numbers in each batch until the watcher is up to date. */
async function told(feed: RevocationFeed, after: LogPosition): Promise<number[][]> {
  const batches: number[][] = [];
  for await (const { revocations, caughtUp } of feed.watch(after, new AbortController().signal)) {
    batches.push(revocations.map(({ sequence }) => sequence));
    if (caughtUp) break;
  }
  return batches;
}

test("what was read is fresh for three seconds, and nothing is before the first read", async () => {
  const { feed, uptime } = open();
  const stale = expect.objectContaining({ code: "service_unavailable", retryAfterMs: 1_000 });
  expect(() => feed.assertFresh()).toThrow(stale);
  await feed.refresh();
  uptime.ms += 3_000;
  expect(() => feed.assertFresh()).not.toThrow();
  uptime.ms += 1;
  expect(feed.lagMs).toBe(3_001);
  expect(() => feed.assertFresh()).toThrow(stale);
});

test("sessions and keys are distinguished, and a ban is reported before the read counts", async () => {
  const { feed, banned, keySets } = open([entry(1), entry(2, { sessionId: null, keyId: "b" })]);
  await feed.refresh();
  expect([feed.isSessionRevoked("session 1"), feed.isKeyRevoked("b"), feed.isKeyRevoked("k")]).toEqual([
    true,
    true,
    false,
  ]);
  expect(banned).toEqual(["b"]);
  expect(keySets).toEqual([[{ keyId: "k", algorithm: "EdDSA" }]]);
});

test("the list of keys is the same one until the keys change", async () => {
  const { feed, log, keySets } = open();
  await feed.refresh();
  log.keys = [{ keyId: "k", algorithm: "EdDSA" }];
  await feed.refresh();
  expect(keySets[1]).toBe(keySets[0]);
  log.keys = [{ keyId: "other", algorithm: "EdDSA" }];
  await feed.refresh();
  expect(keySets[2]).toEqual(log.keys);
});

test("a feed that was started reads every half second and at each ring, until it is stopped", async () => {
  const { feed, log, rings } = open();
  await feed.start();
  expect(log.reads).toBe(1);
  await vi.advanceTimersByTimeAsync(499);
  expect(log.reads).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(log.reads).toBe(2);
  for (const ring of rings) ring();
  expect(log.reads).toBe(3);
  await feed.refresh();
  const before = log.reads;
  feed.stop();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(log.reads).toBe(before);
});

test("a feed whose first read fails does not start; a later failure leaves what is known", async () => {
  const { feed, log, logged } = open([entry(1)]);
  log.isAway = true;
  await expect(feed.start()).rejects.toThrow("away");
  log.isAway = false;
  await feed.start();
  log.isAway = true;
  await vi.advanceTimersByTimeAsync(500);
  expect(feed.isSessionRevoked("session 1")).toBe(true);
  expect(logged).toMatchObject([{ level: 40, err: { message: "away" } }]);
});

test("an announcement rings for the others and reads here", async () => {
  const { feed, log, sent } = open();
  await feed.refresh();
  feed.announce();
  expect([sent.rings, log.reads]).toEqual([1, 2]);
  await feed.refresh();
});

test("a read that is asked for while one runs begins after it, and is shared by all who asked", async () => {
  const { feed, log } = open();
  const held = Promise.withResolvers<void>();
  log.wait = held.promise;
  const first = feed.refresh();
  const [second, third] = [feed.refresh(), feed.refresh()];
  expect(log.reads).toBe(1);
  held.resolve();
  await first;
  await Promise.all([second, third]);
  expect(log.reads).toBe(2);
  await feed.refresh();
  expect(log.reads).toBe(3);
});

test("a read that fails does not fail the one that waits for it", async () => {
  const { feed, log } = open();
  const held = Promise.withResolvers<void>();
  log.wait = held.promise;
  log.isAway = true;
  const failing = feed.refresh().catch((error: Error) => error.message);
  const waiting = feed.refresh();
  held.resolve();
  expect(await failing).toBe("away");
  log.isAway = false;
  await expect(waiting).resolves.toBeUndefined();
});

test.each([
  [499, [499]],
  [500, [500, 0]],
  [501, [500, 1]],
])("a backlog of %i is sent in batches of %j, of which only the last is caught up", async (count, sizes) => {
  const { feed } = open(many(count));
  const batches = await told(feed, LOG_BEGIN);
  expect(batches.map(({ length }) => length)).toEqual(sizes);
  expect(batches.flat()).toEqual(many(count).map(({ sequence }) => sequence));
});

test.each([
  ["the newest entry", { sequence: 5, tip: "tip 5" }, []],
  ["the newest number alone", { sequence: 5, tip: "" }, []],
  ["an entry in between", { sequence: 3, tip: "tip 3" }, [4, 5]],
  ["a number in between", { sequence: 3, tip: "" }, [4, 5]],
  ["another entry of the newest number", { sequence: 5, tip: "lost" }, [1, 2, 3, 4, 5]],
  ["another entry in between", { sequence: 3, tip: "lost" }, [1, 2, 3, 4, 5]],
  ["a number beyond the log", { sequence: 6, tip: "" }, [1, 2, 3, 4, 5]],
  ["an entry beyond the log", { sequence: 6, tip: "tip 5" }, [1, 2, 3, 4, 5]],
  ["the begin with a mark", { sequence: 0, tip: "lost" }, [1, 2, 3, 4, 5]],
])("a watcher at %s gets the missing entries", async (_what, after, expected) => {
  const { feed } = open(many(5));
  expect((await told(feed, after)).flat()).toEqual(expected);
});

test("a watcher gets new entries, and the time from its start to each read", async () => {
  const { feed, log, uptime } = open(many(1));
  await feed.refresh();
  const abort = new AbortController();
  const batches = feed.watch(LOG_BEGIN, abort.signal);
  const first = await batches.next();
  expect(first.value).toMatchObject({
    position: { sequence: 1, tip: "tip 1" },
    caughtUp: true,
    elapsedMs: 0,
    readAt: READ_AT,
    keys: log.keys,
  });
  uptime.ms += 700;
  log.entries.push(entry(2));
  const second = batches.next();
  await feed.refresh();
  expect((await second).value).toMatchObject({
    revocations: [{ sequence: 2 }],
    position: { sequence: 2, tip: "tip 2" },
    elapsedMs: 700,
  });
  const last = batches.next();
  abort.abort();
  expect(await last).toEqual({ done: true, value: undefined });
});

test("a watcher of an aborted call gets nothing", async () => {
  const { feed } = open(many(1));
  expect(await feed.watch(LOG_BEGIN, AbortSignal.abort()).next()).toEqual({ done: true, value: undefined });
});

test("an entry is sent to new watchers until it expires, and later ones longer", async () => {
  const { feed, log, uptime } = open(many(1));
  await feed.refresh();
  uptime.ms += 10_000;
  log.entries.push(entry(2));
  await feed.refresh();
  uptime.ms += 900_000;
  expect(await told(feed, LOG_BEGIN)).toEqual([[1, 2]]);
  uptime.ms += 1_000;
  expect(await told(feed, LOG_BEGIN)).toEqual([[2]]);
  expect([feed.isSessionRevoked("session 1"), feed.isSessionRevoked("session 2")]).toEqual([false, true]);
  uptime.ms += 10_000;
  expect(await told(feed, LOG_BEGIN)).toEqual([[]]);
});

test("an end in the log is kept within the shortest and the longest time that any token may need", async () => {
  const { feed, uptime } = open(
    [1, 1_000, 3_610, 100_000].map((remainingS, index) => entry(index + 1, { remainingS })),
  );
  await feed.refresh();
  const known = async (afterS: number) => {
    uptime.ms = 50_000 + afterS * 1_000;
    await feed.refresh();
    return [1, 2, 3, 4].map((sequence) => feed.isSessionRevoked(`session ${sequence}`));
  };
  expect(await known(910)).toEqual([true, true, true, true]);
  expect(await known(912)).toEqual([false, true, true, true]);
  expect(await known(1_002)).toEqual([false, false, true, true]);
  expect(await known(3_610)).toEqual([false, false, true, true]);
  expect(await known(3_612)).toEqual([false, false, false, false]);
});

test("a log that lost entries is reread and logged; lost revocations still apply here, and are not sent on", async () => {
  const { feed, log, logged } = open(many(3));
  await feed.refresh();
  expect(logged).toEqual([]);
  log.entries = [
    entry(1),
    entry(2, { tip: "new", sessionId: "new" }),
    entry(3, { tip: "newer", sessionId: "newer" }),
  ];
  await feed.refresh();
  expect(logged).toMatchObject([{ level: 40, known: 3, head: 3 }]);
  expect(await told(feed, LOG_BEGIN)).toEqual([[1, 2, 3]]);
  const sessions = ["session 1", "session 2", "session 3", "new", "newer"];
  expect(sessions.map((session) => feed.isSessionRevoked(session))).toEqual(sessions.map(() => true));
});
