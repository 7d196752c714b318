import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import type { TestDatabase } from "#tests/support/database/postgres.ts";
import { receiveInMonth } from "#tests/support/system/audit-log.ts";
import {
  INITIAL_STATUS,
  ORIGIN,
  openTestLog,
  type TestLog,
  type TestSequencer,
  type TestSequencerOptions,
} from "#tests/support/system/audit-sequencer.ts";
import type { TreeHead } from "./checkpoint.ts";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { monthOf } from "./retention-store.ts";
import { selectLastPosition, tryLock, unlock } from "./sequencer-store.ts";

let testLog: TestLog;
let database: TestDatabase;
let nowMs: number;
const thisMonth = monthOf(new Date());

beforeEach(async () => {
  testLog = await openTestLog();
  database = testLog.database;
  nowMs = Date.now();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await testLog.close();
});

/** A sequencer on a clock that only the test advances. */
function start(options: TestSequencerOptions = {}): TestSequencer {
  return testLog.sequencer({ now: () => new Date(nowMs), ...options });
}

const record = (count: number) => testLog.record(count);

/** An empty checkpoint file without failures, apart from the given changes. */
function fileWith(changes: Partial<CheckpointFile>): CheckpointFile {
  return { append: async () => {}, last: async () => undefined, freeBytes: async () => 1e9, ...changes };
}

const numbered = async () => (await database.sql`select from leaves`).length;

test("an empty log is started, and nothing is signed", async () => {
  const sequencer = start();
  expect(sequencer.status).toEqual(INITIAL_STATUS);
  expect(await sequencer.step()).toBe(false);
  expect(await sequencer.step()).toBe(false);
  expect(sequencer.status).toEqual({ ...INITIAL_STATUS, isSequencer: true });
  expect(sequencer.published).toEqual([]);
});

test("the status says what was numbered and signed and when, also after a takeover", async () => {
  const first = start();
  await record(3);
  await first.step();
  const at = new Date(nowMs);
  const after = { isSequencer: true, refusal: undefined, size: 3, checkpointSize: 3 };
  expect(first.status).toEqual({ ...after, numberedAt: at, checkpointAt: at, backlogEntries: 3 });
  expect(first.published).toMatchObject([{ head: { size: 3 } }]);
  nowMs += 5_000;
  await first.step();
  expect(first.status).toEqual({ ...after, numberedAt: at, checkpointAt: at, backlogEntries: 0 });
  await first.stop();
  expect(first.status.isSequencer).toBe(false);

  const second = start();
  await second.step();
  const checkpointAt = expect.any(Date);
  expect(second.status).toEqual({ ...after, numberedAt: undefined, checkpointAt, backlogEntries: 0 });
  expect(second.published).toEqual([]);
});

test("a replica shows no backlog of a log that another one numbers", async () => {
  const first = start();
  await record(3);
  await first.step();
  expect(first.status.backlogEntries).toBe(3);
  await first.stop();
  await start().step();
  await first.step();
  expect(first.status).toMatchObject({ isSequencer: false, backlogEntries: 0 });
});

test("a checkpoint is signed 750 ms after the last one and not before; numbering does not wait", async () => {
  const sequencer = start();
  await record(1);
  await sequencer.step();
  nowMs += 749;
  await record(1);
  await sequencer.step();
  expect(await numbered()).toBe(2);
  expect(sequencer.status).toMatchObject({ size: 2, checkpointSize: 1 });
  nowMs += 1;
  await sequencer.step();
  expect(sequencer.status).toMatchObject({ size: 2, checkpointSize: 2 });
  expect(sequencer.published.map(({ head }) => head.size)).toEqual([1, 2]);
  // The last step numbered nothing, but stored a checkpoint.
  const stored = await database.sql`select size from checkpoints order by size`;
  expect(stored.map(({ size }) => Number(size))).toEqual([1, 2]);
});

test("an idle session of the sequencer, and its lock, end after 3 s", async () => {
  const { sql } = start();
  const rows = await sql`
    select name, setting from pg_settings where name in ('idle_session_timeout', 'idle_in_transaction_session_timeout')`;
  expect(rows.map(({ setting }) => setting)).toEqual(["3000", "3000"]);
});

test("a lock lost without an error ends the term before anything is written", async () => {
  const sequencer = start();
  await sequencer.step();
  await sequencer.sql`select pg_advisory_unlock_all()`;
  await record(1);
  expect(await sequencer.step()).toBe(true);
  expect([sequencer.status.isSequencer, await numbered()]).toEqual([false, 0]);
  await sequencer.step();
  expect([sequencer.status.isSequencer, await numbered()]).toEqual([true, 1]);
});

test("a lost lock also ends the term while transactions store entries", async () => {
  const sequencer = start();
  await sequencer.step();
  await sequencer.sql`select pg_advisory_unlock_all()`;
  await transaction(database.ownerSql, async (tx) => {
    await tx`lock table log_entries in row exclusive mode`;
    expect(await sequencer.step()).toBe(true);
  });
  expect(sequencer.status.isSequencer).toBe(false);
});

test("only one connection holds the lock", async () => {
  const [first, second] = [start().sql, start().sql];
  expect(await tryLock(first)).toBe(true);
  expect(await tryLock(second)).toBe(false);
  await unlock(first);
  expect(await tryLock(second)).toBe(true);
});

test("a term that fails to begin releases the lock for another replica", async () => {
  const file = fileWith({ last: () => Promise.reject(new Error("unreadable")) });
  await expect(start({ file }).step()).rejects.toThrow("unreadable");
  const other = start();
  await other.step();
  expect(other.status.isSequencer).toBe(true);
});

/** A checkpoint file with a larger tree than the log has, until `mend`. */
function fileAhead() {
  let head: TreeHead | undefined = { size: 9, root: Buffer.alloc(32) };
  const mend = () => {
    head = undefined;
  };
  return { file: fileWith({ last: async () => head }), mend };
}

test("a refusing sequencer says so, keeps the lock, and checks the log again after 10 s", async () => {
  const { file, mend } = fileAhead();
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const refusing = start({ file, logger });
  await record(2);
  expect(await refusing.step()).toBe(false);
  const refusal = "the log has 0 entries, but CHECKPOINT_FILE covers 9: entries are missing";
  expect(refusing.status).toMatchObject({ isSequencer: false, refusal });
  expect(lines).toMatchObject([{ level: 50, reason: refusal }]);
  mend();
  expect(await refusing.step()).toBe(false);
  expect(refusing.status).toMatchObject({ isSequencer: false, refusal: expect.any(String) });
  const other = start();
  await other.step();
  expect([other.status.isSequencer, await numbered()]).toEqual([false, 0]);

  const laterMs = performance.now() + 10_000;
  vi.spyOn(performance, "now").mockImplementation(() => laterMs);
  await refusing.step();
  expect(refusing.status).toMatchObject({ isSequencer: true, refusal: undefined, size: 2 });
});

test("a refusing sequencer without its lock checks the log again at once", async () => {
  const { file, mend } = fileAhead();
  const refusing = start({ file });
  await refusing.step();
  mend();
  await unlock(refusing.sql);
  await refusing.step();
  expect(refusing.status).toMatchObject({ isSequencer: true, refusal: undefined });
});

test("a refusal ends when another replica holds the lock", async () => {
  const refusing = start({ file: fileAhead().file });
  await refusing.step();
  await unlock(refusing.sql);
  await start().step();
  await refusing.step();
  expect(refusing.status).toMatchObject({ isSequencer: false, refusal: undefined });
});

test("a checkpoint file that cannot be written does not prevent signing, and is reported", async () => {
  const failures: unknown[] = [];
  const failure = new Error("no space left");
  const file = fileWith({ append: () => Promise.reject(failure) });
  const sequencer = start({ file, onFileFailure: (error) => failures.push(error) });
  for (const size of [1, 2]) {
    await record(1);
    await sequencer.step();
    expect(sequencer.status.checkpointSize).toBe(size);
    nowMs += 1_000;
  }
  expect(failures).toEqual([failure, failure]);
});

test("a hanging checkpoint file delays one step by a second, and the next write waits for the first", async () => {
  const setRealTimeout = setTimeout;
  // The file time-out of one second expires at once.
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((work: () => void, ms?: number) =>
    setRealTimeout(work, ms === 1_000 ? 0 : ms)) as typeof setTimeout);
  const failures: unknown[] = [];
  const writes: { note: string; end: () => void }[] = [];
  const file = fileWith({
    append(note) {
      const { promise, resolve } = Promise.withResolvers<void>();
      writes.push({ note, end: resolve });
      return promise;
    },
  });
  const sequencer = start({ file, onFileFailure: (error) => failures.push(error) });
  const signOne = async () => {
    nowMs += 1_000;
    await record(1);
    await sequencer.step();
  };
  await signOne();
  expect(failures).toMatchObject([{ code: "service_unavailable" }]);
  await signOne();
  expect([failures.length, writes.length, sequencer.status.checkpointSize]).toEqual([2, 1, 2]);
  writes[0]?.end();
  await signOne();
  expect(writes.map(({ note }) => note.split("\n").slice(0, 2))).toEqual([
    [ORIGIN, "1"],
    [ORIGIN, "3"],
  ]);
});

test("entries of a month wait for a transaction from before it, whose entries belong to the previous month", async () => {
  const sequencer = start();
  await testLog.recordIn(thisMonth, 1);
  await sequencer.catchUp();
  const { close } = await openTransaction();
  await testLog.recordIn(thisMonth + 1, 2);
  await sequencer.catchUp();
  expect(await numbered()).toBe(1);
  await close();
  await sequencer.catchUp();
  expect(await numbered()).toBe(3);
});

test("an entry below the next floor is not skipped while its month waits", async () => {
  const sequencer = start({ file: fileWith({ append: () => record(1) }) });
  await record(1);
  await sequencer.step();
  await receiveInMonth(database.ownerSql, thisMonth + 1);
  const { close } = await openTransaction();
  for (let step = 0; step < 3; step += 1) await sequencer.step();
  expect(await numbered()).toBe(1);
  await close();
  for (let step = 0; step < 3; step += 1) await sequencer.step();
  expect(await numbered()).toBe(2);
});

test("entries seen before those of the previous month are numbered after them", async () => {
  const sequencer = start();
  await testLog.recordIn(thisMonth - 2, 1);
  await sequencer.catchUp();
  await testLog.recordIn(thisMonth - 1, 3);
  await testLog.recordIn(thisMonth - 2, 3);
  await sequencer.catchUp();
  expect(await monthsOfNumbers()).toEqual([-2, -2, -2, -2, -1, -1, -1]);
});

test("entries of several months are numbered month by month", async () => {
  const sequencer = start();
  await testLog.recordIn(thisMonth, 2);
  await testLog.recordIn(thisMonth - 2, 2);
  await testLog.recordIn(thisMonth - 1, 2);
  await sequencer.catchUp();
  expect(await monthsOfNumbers()).toEqual([-2, -2, -1, -1, 0, 0]);
});

test.each([
  ["the replica that numbered the month's first entry", false],
  ["a replica that takes over", true],
])("entries of the current month do not wait for older transactions: %s", async (_name, takesOver) => {
  const first = start();
  await testLog.recordIn(thisMonth + 1, 1);
  await first.catchUp();
  if (takesOver) await first.stop();
  const sequencer = takesOver ? start() : first;
  const { close } = await openTransaction();
  await testLog.recordIn(thisMonth + 1, 1);
  await sequencer.catchUp();
  expect(await numbered()).toBe(2);
  await close();
});

test("the floor follows the numbered entries in a backlog, otherwise the stored ones", async () => {
  const sequencer = start({ maxBatchEntries: 4 });
  await record(10);
  const steps: unknown[] = [];
  for (let step = 0; step < 5; step += 1) {
    const isMore = await sequencer.step();
    steps.push([isMore, sequencer.status.size, sequencer.status.backlogEntries]);
    nowMs += 1_000;
  }
  expect(steps).toEqual([
    [true, 4, 4],
    [true, 8, 4],
    [false, 10, 2],
    [false, 10, 0],
    [false, 10, 0],
  ]);
  const stored = await positions();
  await record(1);
  await sequencer.step();
  const rows = await database.sql<{ floor: string }[]>`
    select floor_position as floor from checkpoints order by size`;
  expect(rows.map(({ floor }) => BigInt(floor))).toEqual([0n, 0n, stored[3], stored[9]]);
  expect(await selectLastPosition(sequencer.sql)).toBe((await positions())[10]);
});

test("a full batch counts as not the last one, even if nothing follows", async () => {
  const sequencer = start({ maxBatchEntries: 4 });
  await record(4);
  expect(await sequencer.step()).toBe(true);
  expect(await sequencer.step()).toBe(false);
});

async function positions(): Promise<bigint[]> {
  const rows = await database.sql<{ position: string }[]>`select position from log_entries order by position`;
  return rows.map(({ position }) => BigInt(position));
}

async function monthsOfNumbers(): Promise<number[]> {
  const rows = await database.sql<{ receivedAt: Date }[]>`
    select received_at as "receivedAt" from leaves order by sequence`;
  return rows.map(({ receivedAt }) => monthOf(receivedAt) - thisMonth);
}

/** An open transaction of the service's own role, which may still store entries. */
async function openTransaction(): Promise<{ close: () => Promise<unknown> }> {
  const isOpen = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<void>();
  const done = transaction(database.sql, async (tx) => {
    await tx`select now()`;
    isOpen.resolve();
    await mayEnd.promise;
  });
  await isOpen.promise;
  return {
    close() {
      mayEnd.resolve();
      return done;
    },
  };
}
