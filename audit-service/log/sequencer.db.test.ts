import { createPublicKey, verify } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { isConsistent, isIncluded } from "#tests/support/people/verify-proof.ts";
import { withoutTriggers } from "#tests/support/system/audit-log.ts";
import {
  KEY,
  ORIGIN,
  openTestLog,
  readableLog,
  recomputedLog,
  signer,
  type TestLog,
  testSequencer,
} from "#tests/support/system/audit-sequencer.ts";
import { producedEntry, store } from "../entries/entry.fixture.ts";
import { selectEntries, selectProvenEntries } from "../entries/entry-store.ts";
import { exportEntries } from "../query/export-entries.ts";
import { getEntry } from "../query/get-entry.ts";
import { proveConsistency, proveInclusion } from "../query/prove.ts";
import { createCheckpointSigner } from "./checkpoint.ts";
import { checkpointFile } from "./checkpoint-file.ts";
import { growTree } from "./merkle-tree.ts";

let testLog: TestLog;
let database: TestDatabase;
const cleanUps: (() => unknown)[] = [];

beforeEach(async () => {
  testLog = await openTestLog();
  database = testLog.database;
});

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  await testLog.close();
});

const start: TestLog["sequencer"] = (options) => testLog.sequencer(options);
const record: TestLog["record"] = (count, changes) => testLog.record(count, changes);

test("stored entries get the numbers 1, 2, 3, … once and in order, with the hashes of their rows", async () => {
  const sequencer = start();
  await record(5);
  await sequencer.catchUp();
  await record(700);
  await sequencer.catchUp();

  const log = await recomputedLog(database.ownerSql);
  expect(log.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 705 }, (_, index) => index + 1));
  expect(log.map(({ resource }) => Number(resource))).toEqual(
    Array.from({ length: 705 }, (_, index) => index + 1),
  );
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
  expect(readRoot(log)).toEqual(sequencer.published.at(-1)?.head.root);
});

test("a checkpoint is a signed note in the form of tlog-checkpoint", async () => {
  const sequencer = start();
  await record(3);
  await sequencer.catchUp();
  const { note } = sequencer.published.at(-1) ?? { note: "" };
  const [text = "", signature = ""] = note.split("\n\n");
  expect(text).toMatch(
    /^gatehouse\.test\/audit\n3\n[A-Za-z0-9+/]{43}=\ntime \d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/,
  );
  const [, name, keyId, publicKey] =
    /^(.+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(signer.verifierKey) ?? [];
  const [, signed = ""] = /^— gatehouse\.test\/audit (\S+)\n$/.exec(signature) ?? [];
  const bytes = Buffer.from(signed, "base64");
  expect([name, bytes.subarray(0, 4).toString("hex")]).toEqual([ORIGIN, keyId]);
  expect(verify(null, Buffer.from(`${text}\n`), createPublicKey(KEY), bytes.subarray(4))).toBe(true);
  expect(Buffer.from(publicKey ?? "", "base64")).toHaveLength(33);
  const rows = await database.sql`select note from checkpoints where size = 3`;
  expect(rows).toEqual([{ note }]);
});

test("every leaf of a log of 600 is provable in every checkpoint, and every checkpoint in the next", async () => {
  const sequencer = start();
  for (const count of [1, 2, 253, 1, 255, 88]) {
    await record(count);
    await sequencer.catchUp();
  }
  const heads = sequencer.published.map(({ head }) => head);
  expect(heads.map(({ size }) => size)).toEqual([1, 3, 256, 257, 512, 600]);
  for (const [index, head] of heads.entries()) {
    for (const sequence of [1, 2, 3, 255, 256, 257, 258, 511, 512, 513, 600].filter(
      (each) => each <= head.size,
    )) {
      const { proof, leafHash } = await proveInclusion(database.sql, sequence, head.size);
      expect(isIncluded({ index: sequence - 1, size: head.size, leafHash, proof, root: head.root })).toBe(
        true,
      );
    }
    for (const next of heads.slice(index)) {
      const proof = await proveConsistency(database.sql, head.size, next.size);
      const roots = { firstRoot: head.root, secondRoot: next.root };
      expect(isConsistent({ first: head.size, second: next.size, proof, ...roots })).toBe(true);
    }
  }
});

test.each([
  ["sequence 0", () => proveInclusion(database.sql, 0, 1), "validation_failed"],
  ["a tree without the leaf", () => proveInclusion(database.sql, 3, 2), "validation_failed"],
  ["a tree larger than the log", () => proveInclusion(database.sql, 1, 4), "not_found"],
  ["a first tree without leaves", () => proveConsistency(database.sql, 0, 1), "validation_failed"],
  ["a second tree smaller than the first", () => proveConsistency(database.sql, 2, 1), "validation_failed"],
  ["a second tree larger than the log", () => proveConsistency(database.sql, 1, 4), "not_found"],
])("there is no proof for %s", async (_name, prove, code) => {
  await record(3);
  await start().catchUp();
  await expect(prove()).rejects.toMatchObject({ code });
});

test("an entry with a late commit is not skipped, however many follow it", async () => {
  const sequencer = start();
  await record(3);
  const late = await heldBack();
  await record(5);
  await sequencer.catchUp();
  expect(sequencer.status.size).toBe(8);
  await record(5);
  await sequencer.catchUp();
  await late.commit();
  await sequencer.catchUp();
  const log = await recomputedLog(database.ownerSql);
  expect(log).toHaveLength(14);
  expect(log.at(-1)?.resource).toBe("late");
});

test("an entry with a late commit is not skipped by a replica that takes over in between", async () => {
  const first = start();
  const late = await heldBack();
  await record(5);
  await first.catchUp();
  await first.stop();
  const second = start();
  await second.catchUp();
  await late.commit();
  await second.catchUp();
  expect(await recomputedLog(database.ownerSql)).toHaveLength(6);
});

test("one of two replicas numbers, and the other continues when it is killed", async () => {
  const [first, second] = [start(), start()];
  await record(10);
  await first.catchUp();
  await second.catchUp();
  expect([first.status.isSequencer, second.status.isSequencer]).toEqual([true, false]);
  await first.close();
  await record(10);
  await second.catchUp();
  expect(second.status.isSequencer).toBe(true);
  await expectIntact(20);
});

test("a paused sequencer loses its session and lock, and writes nothing when it resumes", async () => {
  const [stopped, other] = [start(), start()];
  await record(10);
  await stopped.catchUp();
  await record(10);
  const takesOver = async () => {
    await other.step().catch(() => undefined);
    return other.status.isSequencer;
  };
  await expect.poll(takesOver, { timeout: 30_000, interval: 100 }).toBe(true);
  await other.catchUp();
  await record(10);
  for (let attempt = 0; attempt < 5; attempt += 1) await stopped.step().catch(() => undefined);
  expect(stopped.status.isSequencer).toBe(false);
  await other.catchUp();
  await expectIntact(30);
});

test("two rival sequencers number every entry once: the second batch is refused as a whole", async () => {
  const [first, second] = [start(), start()];
  await record(5);
  await first.catchUp();
  // As if the lock had been lost without an error and taken again.
  await first.sql`select pg_advisory_unlock_all()`;
  await second.catchUp();
  await second.sql`select pg_advisory_unlock_all()`;
  await first.sql`select pg_try_advisory_lock(7031011)`;
  await record(5);
  await first.catchUp();
  await first.sql`select pg_advisory_unlock_all()`;
  await second.sql`select pg_try_advisory_lock(7031011)`;
  await record(3); // a tree of another size: no checkpoint of the other's stands in the way
  await expect(second.step()).rejects.toMatchObject({ code: "23505" });
  expect(second.status.isSequencer).toBe(false);
  await first.stop();
  await second.catchUp();
  await expectIntact(13);
});

test("a database restored from before its last checkpoint is not signed, and entries are still stored", async () => {
  const file = await temporaryFile();
  const before = start({ file: checkpointFile({ path: file, signer }) });
  await record(10);
  await before.catchUp();
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe("delete from checkpoints where size >= 10; delete from leaves where sequence > 7"),
  );
  await before.close();

  const after = start({ file: checkpointFile({ path: file, signer }) });
  await after.catchUp();
  expect(after.status.refusal).toContain("entries are missing");
  await record(5);
  await after.catchUp();
  expect(after.published).toEqual([]);
  expect(await selectEntries(database.sql, {}, 100)).toHaveLength(15);

  // Another replica without a file does not sign either, because the lock is kept.
  const other = start();
  await other.catchUp();
  expect([other.status.isSequencer, other.published]).toEqual([false, []]);
});

test("a log that was rebuilt since its last checkpoint is not signed", async () => {
  const first = start();
  await record(300);
  await first.catchUp();
  await first.close();
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe("update leaves set leaf_hash = sha256('forged') where sequence = 299"),
  );
  const second = start();
  await second.catchUp();
  expect(second.status.refusal).toContain("differs from");
});

test("a process does not sign a shorter log than before, even without a file", async () => {
  const sequencer = start();
  await record(10);
  await sequencer.catchUp();
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe("delete from checkpoints; delete from leaves where sequence > 7"),
  );
  await database.ownerSql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sequencer'`.catch(
    () => undefined,
  );
  await sequencer.sql`select pg_terminate_backend(pg_backend_pid())`.catch(() => undefined);
  for (let attempt = 0; attempt < 4; attempt += 1) await sequencer.step().catch(() => undefined);
  expect(sequencer.status.refusal).toContain("the last checkpoint of this process");
});

test("the log continues under a new origin", async () => {
  const file = await temporaryFile();
  const before = start({ file: checkpointFile({ path: file, signer }) });
  await record(10);
  await before.catchUp();
  await before.close();
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe("delete from checkpoints; delete from leaves where sequence > 7"),
  );
  const after = start({
    file: checkpointFile({ path: file, signer: createCheckpointSigner("gatehouse.test/audit-2", KEY) }),
    origin: "gatehouse.test/audit-2",
  });
  await after.catchUp();
  expect(after.published.at(-1)?.note).toMatch(/^gatehouse\.test\/audit-2\n10\n/);
  await expectIntact(10);
});

test("a checkpoint file torn by a crash loses at most one line", async () => {
  const file = await temporaryFile();
  const first = start({ file: checkpointFile({ path: file, signer }) });
  await record(1);
  await first.catchUp();
  const latest = `${file}.latest`;
  await writeFile(latest, `${await readFile(latest, "utf8")}{"type":"checkpoint","no`);
  await record(1);
  await first.catchUp();
  expect((await checkpointFile({ path: file, signer }).last())?.size).toBe(2);
  expect((await readFile(latest, "utf8")).split("\n")).toHaveLength(4);
});

test("a clock that is set back does not prevent checkpoints", async () => {
  let aheadMs = 3_600_000;
  const sequencer = start({ now: () => new Date(Date.now() + aheadMs) });
  await record(5);
  await sequencer.catchUp();
  const signed = sequencer.published.length;
  aheadMs = 0;
  await record(5);
  await sequencer.step();
  await sequencer.step();
  expect(sequencer.published).toHaveLength(signed + 1);
});

test("a log restored into another cluster, with new transaction ids, continues", async () => {
  const first = start();
  await record(300);
  await first.catchUp();
  await first.close();
  await record(20); // stored, not numbered yet
  const restored = await createTestDatabase("audit-service");
  cleanUps.push(() => restored.drop());
  for (const table of ["stored_keys", "log_entries", "leaves", "subtrees", "checkpoints", "claimed_emails"]) {
    const rows = await database.ownerSql.unsafe(`select json_agg(t)::text as all from ${table} as t`);
    await restored.ownerSql.unsafe(
      `insert into ${table} overriding system value select * from json_populate_recordset(null::${table}, $1::text::json)`,
      [rows[0]?.all ?? "[]"],
    );
  }
  await restored.ownerSql`alter sequence entry_positions restart with 10000`;
  const second = testSequencer(restored);
  cleanUps.push(() => second.close());
  await second.catchUp();
  await store(restored.sql, [producedEntry(999)]);
  await second.catchUp();
  const log = await recomputedLog(restored.ownerSql);
  expect(log).toHaveLength(321);
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
});

test("an erased address is removed, its hash is kept, and the log stays provable", async () => {
  const claim = { userId: "", role: "", sessionId: "", claimedEmail: "ada@example.com" };
  const sequencer = start();
  await store(database.sql, [producedEntry(1, { actor: claim }), producedEntry(2)]);
  await sequencer.catchUp();
  const [before] = await selectProvenEntries(database.sql, { first: 1, last: 1 });
  expect(before?.entry.actor.claimedEmail).toBe("ada@example.com");
  expect(before?.claimedEmailSalt).toHaveLength(32);

  await database.sql`delete from claimed_emails where address = 'ada@example.com'`;

  const [after] = await selectProvenEntries(database.sql, { first: 1, last: 1 });
  expect(after?.entry.actor).toMatchObject({
    claimedEmail: "",
    claimedEmailHash: before?.entry.actor.claimedEmailHash,
  });
  expect(before?.entry.actor.claimedEmailHash).toMatch(/^[0-9a-f]{64}$/);
  expect(await database.ownerSql`select from log_entries as e where e::text like '%ada@%'`).toHaveLength(0);
  await expectIntact(2);
});

test("an entry is returned with the proof for the latest checkpoint", async () => {
  const sequencer = start();
  await record(9);
  const [stored] = await selectEntries(database.sql, {}, 1);
  const id = stored?.entry.id ?? "";
  const read = (id: string, sequence = 0) => getEntry([readableLog(database.sql)], { id, sequence, log: 0 });
  expect(await read(id)).toMatchObject({ entry: { log: 0, sequence: 0 }, proof: undefined });
  await sequencer.catchUp();
  const { proof, entry, noted } = await read(id);
  expect(noted).toBeUndefined();
  const root = sequencer.published.at(-1)?.head.root as Buffer;
  const claim = { index: entry.sequence - 1, size: 9, leafHash: proof?.leaf.hash as Buffer, root };
  expect(isIncluded({ ...claim, proof: proof?.covered?.proof ?? [] })).toBe(true);
  expect(proof?.covered?.checkpoint).toBe(sequencer.published.at(-1)?.note);
  await expect(read(crypto.randomUUID())).rejects.toMatchObject({ code: "not_found" });
});

test("an export can begin anywhere, with the hashes before it, and ends with a checkpoint", async () => {
  const sequencer = start();
  for (const count of [300, 10, 400]) {
    await record(count);
    await sequencer.catchUp();
  }
  const lines = await Array.fromAsync(exportEntries(readableLog(database.sql), { first: 278, last: 305 }));
  const [log, ...others] = lines;
  if (log?.kind !== "log") throw new Error("no first line");
  expect([log.log.firstSequence, log.log.lastSequence]).toEqual([278, 310]);
  const entries = others.flatMap((line) => (line.kind === "entry" ? [line.entry] : []));
  expect(entries.map(({ entry }) => entry.sequence)).toEqual(
    Array.from({ length: 33 }, (_, index) => 278 + index),
  );
  const tree = growTree(277, log.log.treeHead);
  for (const { leafHash } of entries) tree.append(leafHash);
  expect(tree.root()).toEqual(sequencer.published[1]?.head.root);
  expect(lines.filter(({ kind }) => kind === "checkpoint")).toEqual([
    { kind: "checkpoint", note: sequencer.published[0]?.note },
    { kind: "checkpoint", note: sequencer.published[1]?.note },
  ]);
});

test("an entry that the latest checkpoint does not cover is returned with its leaf and without a proof", async () => {
  const first = start();
  await record(3);
  await first.catchUp();
  await first.close();
  const renamed = start({ origin: "gatehouse.test/another" });
  await record(2);
  await renamed.catchUp();
  const { proof } = await getEntry([readableLog(database.sql)], { id: "", sequence: 5, log: 0 });
  expect(proof?.leaf.hash).toHaveLength(32);
  expect(proof?.covered).toBeUndefined();
});

test.each([
  ["in the middle", 300, 300],
  ["at the end", 400, 420],
  ["for a whole chunk", 1, 300],
])("an export of a log with lost entries %s ends there with an error", async (_where, from, to) => {
  const sequencer = start();
  await record(420);
  await sequencer.catchUp();
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe(`delete from log_entries where position in (
      select position from leaves where sequence between ${from} and ${to})`),
  );
  const sequences: number[] = [];
  const exporting = (async () => {
    for await (const line of exportEntries(readableLog(database.sql), { first: 0, last: 0 })) {
      if (line.kind === "entry") sequences.push(line.entry.entry.sequence);
    }
  })();
  await expect(exporting).rejects.toMatchObject({ code: "not_found" });
  expect(sequences).toEqual(Array.from({ length: from - 1 }, (_, index) => index + 1));
});

/** A transaction that has its position and has not committed. */
async function heldBack() {
  const stored = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const done = transaction(database.ownerSql, async (tx) => {
    const [key] = await tx<{ position: string }[]>`
      insert into stored_keys (day, producer_name, producer_id, producer_sequence, id)
      values (now()::date, 'gateway', gen_random_uuid(), 1, gen_random_uuid()) returning position`;
    await tx`
      insert into log_entries
      select ${key?.position ?? ""}, date_trunc('milliseconds', now()), gen_random_uuid(), producer_id, 1, producer_name,
        occurred_at, kind, call_id, actor_user_id, actor_role, actor_session_id, '', client_ip, user_agent, method,
        route, 'late', action, request_id, trace_id, outcome, error_code, reason, http_status, latency_us
      from (values (gen_random_uuid(), 'gateway', now(), 'outcome', '', '', '', '', '', '', '', '', '', '', '',
        'success', '', '', 200, 1)) as v (producer_id, producer_name, occurred_at, kind, call_id, actor_user_id,
        actor_role, actor_session_id, client_ip, user_agent, method, route, action, request_id, trace_id, outcome,
        error_code, reason, http_status, latency_us)`;
    stored.resolve();
    await release.promise;
  });
  await stored.promise;
  return {
    async commit() {
      release.resolve();
      await done;
    },
  };
}

async function temporaryFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gatehouse-checkpoints-"));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "checkpoints.jsonl");
}

function readRoot(log: readonly { leafHash: Buffer }[]): Buffer {
  const tree = growTree(0, []);
  for (const { leafHash } of log) tree.append(leafHash);
  return tree.root();
}

async function expectIntact(count: number): Promise<void> {
  const log = await recomputedLog(database.ownerSql);
  expect(log.map(({ sequence }) => sequence)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
  const checkpoints = await database.sql<{ size: string; root_hash: Buffer }[]>`
    select distinct on (size) size, root_hash from checkpoints order by size`;
  for (const { size, root_hash: root } of checkpoints)
    expect(readRoot(log.slice(0, Number(size)))).toEqual(root);
}

test("in a backlog the floor follows the numbered entries, so that no step reads all of them again", {
  tags: "exhaustive",
}, async () => {
  const sequencer = start();
  for (let batch = 0; batch < 14; batch += 1) {
    const entries = Array.from({ length: 500 }, (_, index) => producedEntry(batch * 500 + index + 1));
    await store(database.sql, entries);
  }
  for (let step = 0; step < 3; step += 1) expect(await sequencer.step()).toBe(true);
  expect(sequencer.status.size).toBe(6_000);
  const [last] =
    await database.sql`select floor_position as floor from checkpoints order by size desc limit 1`;
  expect(Number(last?.floor)).toBeGreaterThan(0);
});
