import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { RevocationBell } from "./revocation-bell.ts";
import { RevocationFeed } from "./revocation-feed.ts";
import {
  LOG_BEGIN,
  type LogPosition,
  type LogRead,
  type Revocation,
  type VerificationKey,
} from "./revocation-store.ts";

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
    /** Numbers, in the order in which they were read. */
    read: [] as number[],
    page: 5_000,
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
  const read = async ({ positions }: { positions: readonly LogPosition[] }): Promise<LogRead> => {
    log.reads += 1;
    await log.wait;
    if (log.isAway) throw new Error("away");
    const head = log.entries.at(-1) ?? { sequence: 0, tip: "" };
    const tipOf = new Map(log.entries.map(({ sequence, tip }) => [sequence, tip]));
    const kept = positions.filter(
      ({ sequence, tip }) => sequence <= head.sequence && (tip === "" || tip === tipOf.get(sequence)),
    );
    const after = Math.max(...kept.map(({ sequence }) => sequence));
    const news = log.entries.filter(({ sequence }) => sequence > after);
    const page = news.slice(0, log.page);
    const isHead = page.length === news.length;
    log.read.push(...page.map(({ sequence }) => sequence));
    return {
      after,
      position: isHead ? { sequence: head.sequence, tip: head.tip } : (page.at(-1) as LogPosition),
      isHead,
      revocations: page.map(
        ({ remainingS, ...each }) =>
          ({ ...each, expiresAtS: READ_AT.getTime() / 1_000 + remainingS }) as Revocation,
      ),
      keys: structuredClone(log.keys) as unknown as VerificationKey[],
      slots: undefined,
      readAt: READ_AT,
    };
  };
  const banned: string[] = [];
  const keySets: (readonly unknown[])[] = [];
  const logged: { msg: string }[] = [];
  const feed = new RevocationFeed({
    read,
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
async function sent(feed: RevocationFeed, after: LogPosition): Promise<number[][]> {
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
  const batches = await sent(feed, LOG_BEGIN);
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
  expect((await sent(feed, after)).flat()).toEqual(expected);
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
  expect(await sent(feed, LOG_BEGIN)).toEqual([[1, 2]]);
  uptime.ms += 1_000;
  expect(await sent(feed, LOG_BEGIN)).toEqual([[2]]);
  expect([feed.isSessionRevoked("session 1"), feed.isSessionRevoked("session 2")]).toEqual([false, true]);
  uptime.ms += 10_000;
  expect(await sent(feed, LOG_BEGIN)).toEqual([[]]);
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
  expect(logged).toMatchObject([{ level: 40, known: 3, continued: 0 }]);
  expect(await sent(feed, LOG_BEGIN)).toEqual([[1, 2, 3]]);
  const sessions = ["session 1", "session 2", "session 3", "new", "newer"];
  expect(sessions.map((session) => feed.isSessionRevoked(session))).toEqual(sessions.map(() => true));
});

test("a long log is read page by page, and counts as read at its head only", async () => {
  const { feed, log, uptime } = open(many(12));
  log.page = 5;
  const reading = feed.refresh();
  uptime.ms += 100;
  await reading;
  expect(log.reads).toBe(3);
  expect(log.read).toEqual(many(12).map(({ sequence }) => sequence));
  expect(feed.lagMs).toBe(0); // Since the begin of the last page.
  expect((await sent(feed, LOG_BEGIN)).flat()).toEqual(log.read);
});

test("while many pages of new entries come, a replica stays ready and refuses at once what it has read", async () => {
  const { feed, log, uptime } = open(many(1));
  await feed.refresh();
  log.entries = many(20);
  log.page = 1;
  const seen: [number, boolean, boolean][] = [];
  Object.defineProperty(log, "wait", {
    get: async () => {
      feed.assertFresh();
      const last = log.read.length;
      seen.push([
        last,
        feed.isSessionRevoked(`session ${last}`),
        feed.isSessionRevoked(`session ${last + 1}`),
      ]);
      uptime.ms += 100;
    },
  });
  await feed.refresh();
  expect(seen).toEqual(Array.from({ length: 19 }, (_, index) => [index + 1, true, false]));
});

test("while a log is read only in part, it is not fresh, and no watcher is informed that it has all", async () => {
  const { feed, log } = open(many(4));
  log.page = 2;
  const pages = [Promise.resolve(), Promise.reject(new Error("the second page"))];
  pages[1]?.catch(() => undefined);
  Object.defineProperty(log, "wait", { get: () => pages.shift() ?? Promise.resolve() });
  await expect(feed.refresh()).rejects.toThrow("the second page");
  expect(() => feed.assertFresh()).toThrow();
  pages.push(Promise.reject(new Error("the second page, again")));
  pages[0]?.catch(() => undefined);
  const batches = feed.watch(LOG_BEGIN, new AbortController().signal);
  await expect(batches.next()).rejects.toThrow("again");
  expect(await sent(feed, LOG_BEGIN)).toEqual([[1, 2, 3, 4]]);
  expect(log.read).toEqual([1, 2, 3, 4]);
});

test("after a loss of entries as many are read again, and not the whole log; watchers go on there", async () => {
  const { feed, log } = open(many(1_000));
  await feed.refresh();
  const abort = new AbortController();
  const batches = feed.watch({ sequence: 1_000, tip: "tip 1000" }, abort.signal);
  await batches.next();
  const fresh = Array.from({ length: 10 }, (_, index) =>
    entry(991 + index, { tip: `new ${index}`, sessionId: `new ${index}` }),
  );
  log.entries = [...many(990), ...fresh];
  log.read = [];
  const next = batches.next();
  await feed.refresh();
  expect(log.read[0]).toBeGreaterThan(980);
  expect(log.read.at(-1)).toBe(1_000);
  const batch = (await next).value;
  expect(batch).toMatchObject({ caughtUp: true, position: { sequence: 1_000, tip: "new 9" } });
  expect(batch?.revocations.map(({ sequence }: { sequence: number }) => sequence)).toEqual(log.read);
  // Another watcher that knew a lost entry, and one with a mark of nobody's.
  expect((await sent(feed, { sequence: 995, tip: "tip 995" })).flat()).toEqual(log.read);
  expect((await sent(feed, { sequence: 995, tip: "unknown" })).flat()).toHaveLength(1_000);
  abort.abort();
});

test("after a second loss, further back, a watcher of the first goes on at the second", async () => {
  const { feed, log } = open(many(100));
  await feed.refresh();
  log.entries = [
    ...many(98),
    entry(99, { tip: "b", sessionId: "b" }),
    entry(100, { tip: "c", sessionId: "c" }),
  ];
  await feed.refresh();
  log.entries = [
    ...many(50),
    ...Array.from({ length: 50 }, (_, i) => entry(51 + i, { tip: `d${i}`, sessionId: `d${i}` })),
  ];
  await feed.refresh();
  const sequences = (await sent(feed, { sequence: 100, tip: "tip 100" })).flat();
  expect(sequences[0]).toBeLessThanOrEqual(51);
  expect(sequences.at(-1)).toBe(100);
});

test("a watcher that is behind while a lost log is read again only in part is not informed that it has all", async () => {
  const { feed, log } = open(many(600));
  const abort = new AbortController();
  const batches = feed.watch(LOG_BEGIN, abort.signal);
  expect((await batches.next()).value).toMatchObject({ caughtUp: false });
  log.entries = [
    ...many(100),
    ...Array.from({ length: 500 }, (_, i) => entry(101 + i, { tip: `new ${i}`, sessionId: `new ${i}` })),
  ];
  log.page = 10;
  const second = Promise.reject(new Error("the second page"));
  second.catch(() => undefined);
  const pages = [Promise.resolve(), second];
  Object.defineProperty(log, "wait", { get: () => pages.shift() ?? Promise.resolve() });
  await expect(feed.refresh()).rejects.toThrow("the second page");
  const partly = (await batches.next()).value;
  expect(partly?.revocations).toHaveLength(10);
  expect(partly).toMatchObject({ caughtUp: false });
  const rest = batches.next();
  await feed.refresh();
  expect((await rest).value).toMatchObject({ caughtUp: false });
  const last = { position: { sequence: 600, tip: "new 499" }, caughtUp: true };
  expect((await batches.next()).value).toMatchObject(last);
  abort.abort();
});
