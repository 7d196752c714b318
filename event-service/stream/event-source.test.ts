import { beforeEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { LogsInMemory } from "./event.fixture.ts";
import { EventSource, type Places, type Read } from "./event-source.ts";

let logs: LogsInMemory;
let events: EventSource;
let lines: string[];

beforeEach(() => {
  logs = new LogsInMemory();
  lines = [];
  const logger = createLogger("event-service", "info", { write: (line) => void lines.push(line) });
  events = new EventSource({ follow: logs.follow, source: "https://auth.example.com", logger });
});

const many = (count: number, log = 0) => logs.add(...Array.from({ length: count }, () => ({ log })));
const numbers = ({ events }: Pick<Read, "events">) => events.map(({ sequence }) => sequence);

/** Everything after the places, as a courier reads. */
async function readOn(places: Places) {
  const found: number[] = [];
  let read: Read = { events: [], next: places, isAtEnd: false };
  while (!read.isAtEnd) {
    read = await events.after(read.next);
    found.push(...numbers(read));
  }
  return { found, next: read.next };
}

test("what is new comes from memory, in one read of the log for all who are at its end", async () => {
  many(3);
  await events.read();
  expect(events.tip).toEqual({ 0: 3 });
  many(250);
  await events.read();
  const readsBefore = logs.reads;
  for (const _reader of [1, 2, 3]) {
    expect((await readOn({ 0: 3 })).found).toEqual(Array.from({ length: 250 }, (_, index) => index + 4));
  }
  expect(logs.reads).toBe(readsBefore);
});

test("who is far behind reads the log itself, and comes to its end without a gap", async () => {
  many(1_234);
  await events.read();
  many(10);
  await events.read();
  const { found, next } = await readOn({ 0: 0 });
  expect(found).toEqual(Array.from({ length: 1_244 }, (_, index) => index + 1));
  expect(next).toEqual({ 0: 1_244 });
});

test("only the newest are kept in memory, and none is left out", async () => {
  await events.read();
  many(10_500);
  await events.read();
  const readsBefore = logs.reads;
  expect((await readOn({ 0: 0 })).found).toHaveLength(10_500);
  expect(logs.reads).toBeGreaterThan(readsBefore);
  const readsAfter = logs.reads;
  expect((await readOn({ 0: 500 })).found).toHaveLength(10_000);
  expect(logs.reads).toBe(readsAfter);
});

test("intents and entries of a late reader move its place", async () => {
  await events.read();
  logs.add({ kind: "intent" }, { kind: "outcome" }, { kind: "intent" });
  await events.read();
  expect(await events.after({ 0: 0 })).toMatchObject({
    next: { 0: 3 },
    isAtEnd: true,
    events: [{ sequence: 2 }],
  });
});

test("a log that is added is read from its beginning", async () => {
  many(2);
  await events.read();
  many(5, 7);
  await events.read();
  many(1, 7);
  await events.read();
  const { found, next } = await readOn({ 0: 2 });
  expect(found).toEqual([1, 2, 3, 4, 5, 6]);
  expect(next).toEqual({ 0: 2, 7: 6 });
});

test("a log that is away from the start keeps back its own events alone, and nothing begins at an unknown place of it", async () => {
  many(2);
  many(3, 1);
  logs.away.add(1);
  await expect(events.read()).rejects.toMatchObject({ message: "Audit logs are away: 1" });
  expect([events.tip, events.isKnown]).toEqual([{ 0: 2 }, false]);
  many(1);
  many(2, 1);
  await expect(events.read()).rejects.toThrow("Audit logs are away: 1");
  const away = await readOn({ 0: 2, 1: 2 });
  expect(away).toEqual({ found: [3], next: { 0: 3, 1: 2 } });
  logs.away.clear();
  await events.read();
  expect([events.tip, events.isKnown]).toEqual([{ 0: 3, 1: 5 }, true]);
  expect(await readOn(away.next)).toEqual({ found: [3, 4, 5], next: { 0: 3, 1: 5 } });
});

test("a log that is away keeps back its own events alone, from memory and from the log, and is said to be away", async () => {
  many(300, 0);
  many(300, 1);
  await events.read();
  logs.away.add(1);
  many(2, 0);
  await expect(events.read()).rejects.toMatchObject({ message: "Audit logs are away: 1" });
  const away = await readOn({ 0: 0, 1: 0 });
  expect(away.found).toEqual(Array.from({ length: 302 }, (_, index) => index + 1));
  expect(away.next).toEqual({ 0: 302, 1: 0 });
  logs.away.clear();
  many(1, 1);
  await events.read();
  const back = await readOn(away.next);
  expect(back.found).toEqual(Array.from({ length: 301 }, (_, index) => index + 1));
  expect(back.next).toEqual({ 0: 302, 1: 301 });
});

test("who waits is told when there is more", async () => {
  await events.read();
  let isTold = false;
  const told = events.grown.then(() => {
    isTold = true;
  });
  await events.read();
  expect(isTold).toBe(false);
  many(1);
  await events.read();
  await told;
  expect(isTold).toBe(true);
});

test("a place that another replica has read on to, before this one, is kept", async () => {
  many(3);
  await events.read();
  expect(await events.after({ 0: 9 })).toEqual({ events: [], next: { 0: 9 }, isAtEnd: true });
});

test("a log that was restored to an earlier state is followed from its end, and the log of the process says so", async () => {
  many(5);
  await events.read();
  logs.cut(0, 2);
  await events.read();
  expect(events.tip).toEqual({ 0: 2 });
  expect(lines.join("")).toContain("the log is shorter than it was");
  many(1);
  await events.read();
  expect(numbers(await events.after({ 0: 2 }))).toEqual([3]);
});
