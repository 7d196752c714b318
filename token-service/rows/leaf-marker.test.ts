import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LeafMarker } from "./leaf-marker.ts";
import type { SeenLeaf } from "./session-store.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

const leaf = (sessionId: string, generation = 1): SeenLeaf => ({ sessionId, generation });

function open(
  options: { flushIntervalMs?: number; write?: (leaves: readonly SeenLeaf[]) => Promise<void> } = {},
) {
  const batches: (readonly SeenLeaf[])[] = [];
  const write = async (leaves: readonly SeenLeaf[]) => {
    batches.push(leaves);
    await options.write?.(leaves);
  };
  const { flushIntervalMs } = options;
  const marker = new LeafMarker({
    write,
    logger: pino({ level: "silent" }),
    ...(flushIntervalMs !== undefined && { flushIntervalMs }),
  });
  return { marker, batches };
}

test.each([
  [undefined, 50],
  [5, 5],
])(
  "with an interval of %j what was seen is written together after %i ms, once",
  async (flushIntervalMs, afterMs) => {
    const { marker, batches } = open(flushIntervalMs === undefined ? {} : { flushIntervalMs });
    marker.saw(leaf("a"));
    await vi.advanceTimersByTimeAsync(afterMs - 1);
    for (const seen of [leaf("a"), leaf("a", 2), leaf("b")]) marker.saw(seen);
    expect(batches).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(batches).toEqual([[leaf("a"), leaf("a", 2), leaf("b")]]);
    marker.saw(leaf("a"));
    expect(vi.getTimerCount()).toBe(0);
    marker.saw(leaf("c"));
    await vi.advanceTimersByTimeAsync(afterMs);
    expect(batches).toHaveLength(2);
  },
);

test("a flush writes now, and leaves no timer", async () => {
  const { marker, batches } = open();
  marker.saw(leaf("a"));
  await marker.flush();
  expect(batches).toEqual([[leaf("a")]]);
  expect(vi.getTimerCount()).toBe(0);
  await marker.flush();
  expect(batches).toHaveLength(1);
});

test("closing writes once more, also where that fails, and leaves no timer", async () => {
  const { marker, batches } = open({ write: () => Promise.reject(new Error("the database is away")) });
  marker.saw(leaf("a"));
  await marker.close();
  marker.saw(leaf("b"));
  expect(batches).toEqual([[leaf("a")]]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a batch has 500 leaves at the most, and the rest follows at once", async () => {
  const { marker, batches } = open();
  for (let index = 0; index < 501; index += 1) marker.saw(leaf(`${index}`));
  await marker.flush();
  expect(batches.map(({ length }) => length)).toEqual([500, 1]);
});

test("two flushes write nothing twice", async () => {
  const held = Promise.withResolvers<void>();
  const { marker, batches } = open({ write: () => held.promise });
  marker.saw(leaf("a"));
  const flushes = [marker.flush(), marker.flush()];
  held.resolve();
  await Promise.all(flushes);
  expect(batches).toHaveLength(1);
});

test("a batch that cannot be written is tried again a second later, with what came meanwhile", async () => {
  let isAway = true;
  const { marker, batches } = open({
    write: async () => {
      if (isAway) throw new Error("away");
    },
  });
  marker.saw(leaf("a"));
  await marker.flush();
  marker.saw(leaf("b"));
  isAway = false;
  await vi.advanceTimersByTimeAsync(999);
  expect(batches).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(batches[1]).toEqual([leaf("a"), leaf("b")]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(batches).toHaveLength(2);
});

test("with the database away 20,000 leaves wait, and no more", async () => {
  const { marker, batches } = open();
  for (let index = 0; index < 20_001; index += 1) marker.saw(leaf(`${index}`));
  await marker.flush();
  expect(batches.flat()).toHaveLength(20_000);
  expect(batches.flat().at(-1)).toEqual(leaf("19999"));
});
