import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { callTimeLeftMs, withCallDeadline } from "./call-deadline.ts";
import { createSharedTurns, createTurns } from "./turns.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const BUSY = { code: "busy", retryAfterMs: 1_000 };
const settled = () => vi.advanceTimersByTimeAsync(0);

test("first come, first served, one at a time; another key does not wait", async () => {
  const turns = createTurns();
  const order: string[] = [];
  const release = await turns.take("ada", 500);
  const later = ["first", "second"].map(async (name) => {
    const end = await turns.take("ada", 500);
    order.push(name);
    return end;
  });
  (await turns.take("bob", 0))();
  await settled();
  expect(order).toEqual([]);
  release();
  await settled();
  expect(order).toEqual(["first"]);
  (await later[0])?.();
  await settled();
  expect(order).toEqual(["first", "second"]);
  (await later[1])?.();
  // Nobody holds it any more: even a caller that cannot wait has its turn.
  (await turns.take("ada", 0))();
});

test("as many of one key as are said have their turn at once, and the next one when any of them ends", async () => {
  const turns = createTurns({ atOnce: 3 });
  const [first, second, third] = await Promise.all(["1", "2", "3"].map(() => turns.take("ada", 0)));
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
  const fourth = turns.take("ada", 500);
  second?.();
  await fourth;
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
  first?.();
  const fifth = await turns.take("ada", 0);
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
  for (const end of [third, await fourth, fifth]) end?.();
  for (let times = 0; times < 3; times += 1) await turns.take("ada", 0);
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
});

test("without time to wait, a turn that is taken is refused at once", async () => {
  const turns = createTurns();
  await turns.take("ada", 500);
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
});

test("a wait ends after its time, and after a second at most", async () => {
  const turns = createTurns();
  await turns.take("ada", 500);
  const ended: string[] = [];
  const wait = (name: string, waitMs: number) => turns.take("ada", waitMs).catch(() => void ended.push(name));
  void wait("short", 300);
  void wait("long", 60_000);
  await vi.advanceTimersByTimeAsync(299);
  expect(ended).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toEqual(["short"]);
  await vi.advanceTimersByTimeAsync(699);
  expect(ended).toEqual(["short"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toEqual(["short", "long"]);
});

test("a waiter that gave up gets no turn, and the next one does", async () => {
  const turns = createTurns();
  const release = await turns.take("ada", 500);
  const impatient = turns.take("ada", 100).catch((error: unknown) => error);
  const patient = turns.take("ada", 900);
  await vi.advanceTimersByTimeAsync(100);
  expect(await impatient).toMatchObject(BUSY);
  release();
  const end = await patient;
  await expect(turns.take("ada", 0)).rejects.toMatchObject(BUSY);
  // A turn that was given is not taken back when the time to wait is over.
  await vi.advanceTimersByTimeAsync(5_000);
  end();
  (await turns.take("ada", 0))();
});

test("a turn that was given leaves the places of those behind it alone when its own time to wait is over", async () => {
  const turns = createTurns();
  const release = await turns.take("ada", 500);
  const second = turns.take("ada", 200);
  release();
  const end = await second;
  const third = turns.take("ada", 1_000);
  await vi.advanceTimersByTimeAsync(300);
  end();
  (await third)();
});

test("32 wait for one key, no more; one that got its turn makes room", async () => {
  const turns = createTurns();
  const release = await turns.take("ada", 500);
  const waiting = Array.from({ length: 32 }, () => turns.take("ada", 900));
  await expect(turns.take("ada", 900)).rejects.toMatchObject(BUSY);
  release();
  const end = await waiting[0];
  const last = turns.take("ada", 900);
  end?.();
  for (const turn of waiting.slice(1)) (await turn)();
  (await last)();
});

test("as many wait in all as are said", async () => {
  const turns = createTurns({ maxWaiting: 1 });
  const [end] = await Promise.all(["ada", "bob"].map((key) => turns.take(key, 0)));
  const waiting = turns.take("ada", 500);
  await expect(turns.take("bob", 500)).rejects.toMatchObject(BUSY);
  end?.();
  await waiting;
});

test("1000 wait in all, no more; those that gave up or had their turn are not counted", async () => {
  const turns = createTurns();
  for (let round = 0; round < 2; round += 1) {
    const releases: (() => void)[] = [];
    const waiting: Promise<unknown>[] = [];
    for (let key = 0; key < 51; key += 1) releases.push(await turns.take(`user${key}`, 0));
    for (let index = 0; index < 1_000; index += 1) {
      const turn = turns.take(`user${index % 50}`, 800);
      waiting.push(turn.then((end) => end()).catch((error: unknown) => error));
    }
    await expect(turns.take("user50", 800)).rejects.toMatchObject(BUSY);
    // Of every second user the turn ends; who waits for the others gives up.
    for (let key = 0; key < 51; key += 2) releases[key]?.();
    await vi.advanceTimersByTimeAsync(800);
    const given = (await Promise.all(waiting)).filter((error) => error === undefined);
    expect(given).toHaveLength(500);
    for (let key = 1; key < 51; key += 2) releases[key]?.();
  }
});

test("the same work waits once, and callers who come after it has begun share the next", async () => {
  const turns = createSharedTurns(1);
  const begun: { end: (result: string) => void }[] = [];
  const share = (what: string) =>
    turns.share("ada", what, () => new Promise<string>((end) => void begun.push({ end })));
  const first = share("token");
  await settled();
  const others = Array.from({ length: 99 }, () => share("token"));
  await settled();
  expect(begun).toHaveLength(1);
  await expect(share("another token")).rejects.toMatchObject({
    code: "service_unavailable",
    retryAfterMs: 1_000,
  });
  begun[0]?.end("one");
  expect(await first).toBe("one");
  await settled();
  expect(begun).toHaveLength(2);
  begun[1]?.end("two");
  expect(new Set(await Promise.all(others))).toEqual(new Set(["two"]));
  const last = share("token");
  await settled();
  begun[2]?.end("three");
  expect(await last).toBe("three");
});

test("shared work is in time as long as one of its callers waits", async () => {
  const turns = createSharedTurns(1);
  const caller = new AbortController();
  const nowMs = Date.now();
  const call = (deadlineMs: number, gone?: AbortSignal) =>
    withCallDeadline(
      nowMs + deadlineMs,
      () => turns.share("ada", "token", async () => callTimeLeftMs()),
      gone,
    );
  const first = Promise.withResolvers<void>();
  const running = turns.share("ada", "other", () => first.promise);
  const shared = [call(8_000, caller.signal), call(5_000), call(3_000)];
  caller.abort();
  first.resolve();
  await running;
  expect(await Promise.all(shared)).toEqual([5_000, 5_000, 5_000]);
  expect(await call(8_000, caller.signal)).toBeLessThan(0);
});

test("shared work that fails or waits too long is not remembered, and lets the next begin", async () => {
  const turns = createSharedTurns(5);
  await expect(turns.share("ada", "t", () => Promise.reject(new Error("its own")))).rejects.toThrow(
    "its own",
  );
  const first = Promise.withResolvers<string>();
  const running = turns.share("ada", "t", () => first.promise);
  await settled();
  const late = turns.share("ada", "t", async () => "never");
  const refused = expect(late).rejects.toMatchObject({ code: "service_unavailable" });
  await vi.advanceTimersByTimeAsync(1_000);
  await refused;
  first.resolve("first");
  expect(await running).toBe("first");
  expect(await turns.share("ada", "t", async () => "again")).toBe("again");
});
