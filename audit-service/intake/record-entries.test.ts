import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { callTimeLeftMs, withCallDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { producedEntry } from "../entries/entry.fixture.ts";
import type { ProducedEntry } from "../entries/entry.ts";
import { EntryRecorder, type RecordDeps } from "./record-entries.ts";

const logger = pino({ level: "silent" });

/** A recorder whose inserts the test ends one by one. */
function recorderByHand(limits: Partial<RecordDeps> = {}) {
  const inserts: { entries: readonly ProducedEntry[]; commit(): void; fail(error: unknown): void }[] = [];
  const recorder = new EntryRecorder({
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

test("an insert for all has no caller's deadline, and goes on when the caller that began it has gone", async () => {
  const timesLeft: (number | undefined)[] = [];
  const { recorder } = recorderByHand({
    insertEntries: async ({ length }) => {
      timesLeft.push(callTimeLeftMs());
      return length;
    },
  });
  const gone = { aborted: false };
  const ofCall = withCallDeadline(Date.now() + 60_000, () => recorder.record(entries(1)), gone);
  const ofStream = recorder.record(entries(2));
  gone.aborted = true;
  await Promise.all([ofCall, ofStream]);
  expect(timesLeft).toEqual([undefined]);
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
  const recorder = new EntryRecorder({ logger, insertEntries, selectEntriesById: async () => [] });
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
  const recorder = new EntryRecorder({
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

/** A store with these entries, in which an id is taken for good. Counts what it is asked. */
function recorderWith(
  held: readonly ProducedEntry[],
  hooks: { breaks?: (entry: ProducedEntry) => boolean; afterSelect?: (stored: ProducedEntry[]) => void } = {},
) {
  const stored = [...held];
  const asked = { inserts: 0, selects: 0 };
  const commits: { entries: number; duplicates: number }[] = [];
  const logLines: string[] = [];
  const recorder = new EntryRecorder({
    logger: pino({ level: "warn" }, { write: (line: string) => void logLines.push(line) }),
    insertEntries: async (group) => {
      asked.inserts += 1;
      const ids = [...stored, ...group].map(({ entry }) => entry.id);
      if (new Set(ids).size < ids.length)
        throw Object.assign(new Error("taken"), { code: "23505", constraint_name: "stored_keys_id_key" });
      if (group.some((entry) => hooks.breaks?.(entry))) throw new Error("a defect in one of them");
      stored.push(...group);
      return group.length;
    },
    selectEntriesById: async (ids) => {
      asked.selects += 1;
      const found = stored.map(({ entry }) => entry).filter(({ id }) => ids.includes(id));
      hooks.afterSelect?.(stored);
      return found;
    },
    onCommit: ({ entries, duplicates }) => commits.push({ entries, duplicates }),
  });
  return { recorder, stored, asked, commits, logLines };
}

const sentAgain = (held: readonly ProducedEntry[], from: number) =>
  held.map(({ entry }, index) => ({ entry, origin: producedEntry(from + index).origin }));

test("a group with repeated entries is two inserts and one look, however many messages it has", async () => {
  const held = entries(1, 200);
  const { recorder, stored, asked, commits, logLines } = recorderWith(held);
  const sent = sentAgain(held, 1_001).flatMap((again, index) => [again, ...entries(2_001 + index)]);
  await Promise.all(sent.map((each) => recorder.record([each])));
  expect(asked).toEqual({ inserts: 2, selects: 1 });
  expect(sequences(stored.slice(200))).toEqual(Array.from({ length: 200 }, (_, index) => 2_001 + index));
  expect(commits).toEqual([{ entries: 200, duplicates: 200 }]);
  expect(logLines).toEqual([]);
});

test("an entry under the id of another one is stored in its place, and logged", async () => {
  const held = entries(1, 2);
  const { recorder, stored, asked, logLines } = recorderWith(held);
  const id = held[0]?.entry.id ?? "";
  const sent = [...entries(11), producedEntry(12, { id, reason: "other" }), ...entries(13)];
  await Promise.all(sent.map((each) => recorder.record([each])));
  expect(sequences(stored.slice(2))).toEqual([11, 12, 13]);
  expect(stored.find(({ origin }) => origin.sequence === 12)?.entry).toMatchObject({ reason: "other" });
  expect(asked).toEqual({ inserts: 2, selects: 1 });
  expect(logLines.map((line) => JSON.parse(line))).toMatchObject([{ entries: 1, producer: "gateway" }]);
});

test("an entry that cannot be stored fails alone among repeated ones", async () => {
  const held = entries(1, 5);
  const { recorder, stored } = recorderWith(held, { breaks: ({ origin }) => origin.sequence === 22 });
  const sent = [...sentAgain(held, 11), ...entries(21, 23)];
  const results = await Promise.allSettled(sent.map((each) => recorder.record([each])));
  expect(results.flatMap(({ status }, index) => (status === "rejected" ? [index] : []))).toEqual([6]);
  expect(sequences(stored)).toEqual([1, 2, 3, 4, 5, 21, 23]);
});

test("ids that another replica takes between the look and the insert are looked for again", async () => {
  const [first, second] = entries(1, 2) as [ProducedEntry, ProducedEntry];
  const { recorder, stored, asked } = recorderWith([first], {
    afterSelect: (entries) => void (entries.length === 1 && entries.push(second)),
  });
  // One of them is twice in the group.
  const sent = sentAgain([first, second, second], 11);
  await Promise.all([...sent, ...entries(21)].map((each) => recorder.record([each])));
  expect(sequences(stored)).toEqual([1, 2, 21]);
  expect(asked).toEqual({ inserts: 3, selects: 2 });
});
