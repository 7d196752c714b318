import { pino } from "pino";
import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { WholeEntry } from "../stream/audit-log-client.ts";
import type { Places } from "../stream/event-source.ts";
import { EntryReader } from "./entry-reader.ts";

const SIZE = 3;

/** Three logs of three entries. */
function readerWithout(...away: readonly number[]) {
  return new EntryReader({
    readLog: async (log, after, limit) => {
      if (away.includes(log)) throw new DomainError("service_unavailable");
      const next = Math.min(after + limit, SIZE);
      const sequences = Array.from({ length: next - after }, (_, index) => after + index + 1);
      return { entries: sequences.map((sequence) => ({ log, sequence }) as WholeEntry), next };
    },
    events: { tip: { 0: SIZE, 1: SIZE, 2: SIZE } },
    logger: pino({ level: "silent" }),
  });
}

const places = async (reader: EntryReader, limit: number, from: Places = { 0: 1 }) => {
  const { entries, next } = await reader.after(from, limit);
  return { read: entries.map(({ log, sequence }) => `${log}:${sequence}`), next };
};

test("a log that is far behind leaves room for the others, and takes what they do not need", async () => {
  expect(await places(readerWithout(), 5, { 0: 0, 1: 0, 2: 2 })).toMatchObject({
    read: ["2:3", "0:1", "0:2", "1:1", "1:2"],
  });
  expect(await places(readerWithout(), 3, { 0: 0, 1: 3, 2: 3 })).toMatchObject({
    read: ["0:1", "0:2", "0:3"],
  });
});

test("a log that is shorter than its end was known to be is read up to its end, once", async () => {
  let reads = 0;
  const readLog = async (log: number, after: number) => {
    reads += 1;
    if (reads > 2) throw new Error("read again");
    return { entries: after < SIZE ? [{ log, sequence: SIZE } as WholeEntry] : [], next: SIZE };
  };
  // The log was restored to an earlier state just now.
  const events = { tip: { 0: SIZE + 2 } };
  const reader = new EntryReader({ readLog, events, logger: pino({ level: "silent" }) });
  const { next } = await reader.after({ 0: SIZE - 1 }, 10);
  expect(next).toEqual({ 0: SIZE });
});

test("a log that is away keeps back its own entries alone", async () => {
  expect(await places(readerWithout(), 4)).toEqual({
    read: ["0:2", "0:3", "1:1", "2:1"],
    next: { 0: 3, 1: 1, 2: 1 },
  });
  expect(await places(readerWithout(0), 4)).toEqual({
    read: ["1:1", "1:2", "2:1", "2:2"],
    next: { 0: 1, 1: 2, 2: 2 },
  });
  expect(await places(readerWithout(0), 4, { 0: 1, 1: 3, 2: 3 })).toEqual({
    read: [],
    next: { 0: 1, 1: 3, 2: 3 },
  });
  await expect(readerWithout(0, 1, 2).after({ 0: 1 }, 4)).rejects.toMatchObject({
    code: "service_unavailable",
  });
});
