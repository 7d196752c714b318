import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { DomainError } from "../../service-kit/errors.ts";
import { producedEntry } from "../entries/entry.fixture.ts";
import type { ProducedEntry } from "../entries/entry.ts";
import { createEntryRecorder, type RecordDeps } from "./record-entries.ts";

const logger = pino({ level: "silent" });

/** A recorder whose inserts the test ends one by one. */
function recorderByHand(limits: Partial<RecordDeps> = {}) {
  const inserts: { entries: readonly ProducedEntry[]; commit(): void; fail(error: unknown): void }[] = [];
  const recorder = createEntryRecorder({
    logger,
    selectEntriesById: async () => [],
    insertEntries: (entries) =>
      new Promise((resolve, reject) => {
        inserts.push({ entries, commit: () => resolve(entries.length), fail: reject });
      }),
    ...limits,
  });
  const insert = (index: number) =>
    vi.waitFor(() => inserts[index] ?? Promise.reject(new Error("not yet")), 20_000);
  return { recorder, inserts, insert };
}

const entries = (from: number, to = from) =>
  Array.from({ length: to - from + 1 }, (_, index) => producedEntry(from + index));
const sequences = (inserted: readonly ProducedEntry[]) => inserted.map(({ origin }) => origin.sequence);
const away = () => new DomainError("service_unavailable");

test("nothing is acknowledged before the commit", async () => {
  const { recorder, insert } = recorderByHand();
  const acknowledged = vi.fn();
  const recorded = recorder.record(entries(1)).then(acknowledged);
  const first = await insert(0);
  expect(acknowledged).not.toHaveBeenCalled();
  first.commit();
  await recorded;
});

test("entries of one event loop turn are one insert; entries during an insert are the next one", async () => {
  const { recorder, inserts, insert } = recorderByHand();
  const recorded = [recorder.record(entries(1)), recorder.record(entries(2))];
  const first = await insert(0);
  recorded.push(recorder.record(entries(3)), recorder.record(entries(4)));
  first.commit();
  (await insert(1)).commit();
  await Promise.all(recorded);
  expect(inserts.map((each) => sequences(each.entries))).toEqual([
    [1, 2],
    [3, 4],
  ]);
});

test("an insert has at most 500 entries, and does not split messages", async () => {
  const { recorder, inserts, insert } = recorderByHand();
  const recorded = [1, 201, 401].map((from) => recorder.record(entries(from, from + 199)));
  (await insert(0)).commit();
  (await insert(1)).commit();
  await Promise.all(recorded);
  expect(inserts.map((each) => each.entries.length)).toEqual([400, 200]);
});

test("without the database all waiting messages fail, so that none overtakes a repetition", async () => {
  const { recorder, inserts, insert } = recorderByHand();
  const first = recorder.record(entries(1));
  const failing = await insert(0);
  const second = recorder.record(entries(2));
  failing.fail(away());
  expect(await Promise.allSettled([first, second])).toMatchObject([
    { reason: { code: "service_unavailable" } },
    { reason: { code: "service_unavailable" } },
  ]);
  expect(inserts).toHaveLength(1);

  const again = recorder.record(entries(1));
  (await insert(1)).commit();
  await again;
});

test("the same holds if the database fails while messages are stored one by one", async () => {
  const { recorder, inserts, insert } = recorderByHand();
  const recorded = [recorder.record(entries(1)), recorder.record(entries(2)), recorder.record(entries(3))];
  (await insert(0)).fail(new Error("a defect in one of them"));
  (await insert(1)).commit();
  const failing = await insert(2);
  recorded.push(recorder.record(entries(4)));
  failing.fail(away());
  expect(await Promise.allSettled(recorded)).toMatchObject([
    { status: "fulfilled" },
    ...[2, 3, 4].map(() => ({ reason: { code: "service_unavailable" } })),
  ]);
  expect(inserts.map((each) => sequences(each.entries))).toEqual([[1, 2, 3], [1], [2]]);
});

test("an insert that does not end times out, and the next one is tried", async () => {
  const { recorder, insert } = recorderByHand({ insertTimeoutMs: 300 });
  await expect(recorder.record(entries(1))).rejects.toMatchObject({ code: "service_unavailable" });
  const again = recorder.record(entries(1));
  (await insert(1)).commit();
  await again;
});

test("entries that cannot be stored fail alone", async () => {
  const insertEntries = vi.fn(async (group: readonly ProducedEntry[]) => {
    if (sequences(group).includes(2)) throw new Error("a defect");
    return group.length;
  });
  const recorder = createEntryRecorder({ logger, insertEntries, selectEntriesById: async () => [] });
  const results = await Promise.allSettled([1, 2, 3].map((sequence) => recorder.record(entries(sequence))));
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
});

test("room() waits while the queue is full, until an insert has taken from it", async () => {
  const { recorder, insert } = recorderByHand({ maxWaitingEntries: 2 });
  const recorded = [recorder.record(entries(1))];
  const first = await insert(0);
  recorded.push(recorder.record(entries(2, 3)));
  const hasRoom = vi.fn();
  const room = recorder.room().then(hasRoom);
  await new Promise((resolve) => setTimeout(resolve, 10));
  expect(hasRoom).not.toHaveBeenCalled();
  first.commit();
  await room;
  (await insert(1)).commit();
  await Promise.all(recorded);
  expect(recorder.waitingEntries).toBe(0);
});

test.each([
  ["errorCode", { errorCode: "other" }],
  ["outcome", { outcome: "unknown" as const }],
  ["reason", { reason: "other" }],
  ["httpStatus", { httpStatus: 418 }],
  ["latencyUs", { latencyUs: 7 }],
  ["resource", { resource: "other" }],
  ["requestId", { requestId: "other" }],
  ["clientIp", { clientIp: "192.0.2.99" }],
  ["the actor's session", { actor: { userId: "u", role: "USER", sessionId: "other", claimedEmail: "" } }],
])("an entry with a taken id that differs in %s is stored", async (_what, change) => {
  const held = producedEntry(1);
  const other = producedEntry(2, { ...change, id: held.entry.id });
  const stored: ProducedEntry[] = [];
  const recorder = createEntryRecorder({
    logger,
    insertEntries: async (group) => {
      if (group.some(({ entry }) => entry.id === held.entry.id)) {
        throw Object.assign(new Error("taken"), { code: "23505", constraint_name: "stored_keys_id_key" });
      }
      stored.push(...group);
      return group.length;
    },
    selectEntriesById: async () => [held.entry],
  });
  await recorder.record([other]);
  expect(stored.map(({ origin }) => origin.sequence)).toEqual([2]);
  await recorder.record([{ ...held, origin: { ...held.origin, sequence: 3 } }]);
  expect(stored).toHaveLength(1); // the same entry again, under another number
});
