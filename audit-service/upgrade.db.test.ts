import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { recomputedLog, type TestSequencer, testSequencer } from "../tests/support/audit-sequencer.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { sampleEntry, store } from "./entries/entry.fixture.ts";
import { selectEntries } from "./entries/entry-store.ts";

let database: TestDatabase;
let sequencer: TestSequencer;

beforeEach(async () => {
  database = await createTestDatabase("audit-service");
  sequencer = testSequencer(database);
});

afterEach(async () => {
  await sequencer.close();
  await database.drop();
});

test("entries stored by a replica of the previous version are in the log at once, and numbered", async () => {
  await oldInsert([old(1), old(2, { claimed_email: "ada@example.com" })]);
  await sequencer.catchUp();
  const entries = await selectEntries(database.sql, {}, 10);
  expect(entries.map(({ entry }) => [entry.resource, entry.sequence, entry.actor.claimedEmail])).toEqual([
    ["2", 2, "ada@example.com"],
    ["1", 1, ""],
  ]);
  expect((await recomputedLog(database.ownerSql)).every(({ isIntact }) => isIntact)).toBe(true);
});

test("entries sent to both versions, in either order, are in the log once", async () => {
  const producerId = crypto.randomUUID();
  const origin = (sequence: number) => ({ producerId, producerName: "gateway", sequence });
  await oldInsert([old(1, { producer_id: producerId })]);
  expect(await store(database.sql, [{ origin: origin(1), entry: sampleEntry() }])).toBe(0);
  expect(await store(database.sql, [{ origin: origin(2), entry: sampleEntry() }])).toBe(1);
  await oldInsert([old(2, { producer_id: producerId }), old(3, { producer_id: producerId })]);
  expect(await selectEntries(database.sql, {}, 10)).toHaveLength(3);
});

test("an entry of the previous version with a taken id is stored under another id", async () => {
  const id = crypto.randomUUID();
  const origin = { producerId: crypto.randomUUID(), producerName: "gateway", sequence: 1 };
  await store(database.sql, [{ origin, entry: sampleEntry({ id }) }]);
  await oldInsert([old(1, { id })]);
  expect(await selectEntries(database.sql, {}, 10)).toHaveLength(2);
});

test("an intent of the previous version can be closed, and its outcome closes it", async () => {
  await oldInsert([
    old(1, { kind: "intent", call_id: "open" }),
    old(2, { kind: "intent", call_id: "ended" }),
    old(3, { kind: "intent", call_id: "both" }),
    old(4, { kind: "outcome", call_id: "both" }),
  ]);
  await oldInsert([old(5, { kind: "outcome", call_id: "ended" })]);
  expect(await database.sql`select call_id from open_intents`).toEqual([{ call_id: "open" }]);
});

test("entries from before the upgrade are copied once, in their order and months, even if the migration is repeated", async () => {
  await database.ownerSql`alter table entries disable trigger entries_carried_over`;
  await oldInsert([
    old(1, { received_at: "2024-02-29T23:59:59.999999Z", kind: "intent", call_id: "open" }),
    old(2, { received_at: "2024-03-01T00:00:00Z", claimed_email: "ada@example.com" }),
  ]);
  await oldInsert([old(3)]);
  await database.ownerSql`alter table entries enable always trigger entries_carried_over`;
  await oldInsert([old(4)]); // by a replica of the version before, while the migration is under way
  const migration = await readFile(
    join(import.meta.dirname, "migrations", "0003_carry_entries_over.sql"),
    "utf8",
  );
  await database.ownerSql.unsafe(migration);
  await database.ownerSql.unsafe(migration);

  await sequencer.catchUp();
  const rows = await database.ownerSql`
    select e.resource, e.tableoid::regclass::text as table, l.sequence::int from log_entries as e join leaves as l using (position)
    order by l.sequence`;
  expect(rows.map(({ resource }) => resource)).toEqual(["1", "2", "4", "3"]);
  expect(rows.slice(0, 2).map(({ table }) => table)).toEqual(["log_entries_2024_02", "log_entries_2024_03"]);
  const log = await recomputedLog(database.ownerSql);
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
  expect(await database.sql`select address from claimed_emails`).toEqual([{ address: "ada@example.com" }]);
  expect(await database.sql`select call_id from open_intents`).toEqual([{ call_id: "open" }]);
});

function old(sequence: number, changes: Record<string, string> = {}): Record<string, string | number> {
  return {
    id: crypto.randomUUID(),
    producer_id: "0190b6a0-0000-4000-8000-0000000000cc",
    producer_sequence: sequence,
    producer_name: "gateway",
    occurred_at: `2026-03-01T10:00:0${sequence}.123456Z`,
    ...{
      kind: "outcome",
      call_id: "",
      actor_user_id: "",
      actor_role: "",
      actor_session_id: "",
      claimed_email: "",
    },
    ...{ client_ip: "", user_agent: "", method: "", route: "", resource: String(sequence), action: "old" },
    ...{
      request_id: "",
      trace_id: "",
      outcome: "success",
      error_code: "",
      reason: "",
      http_status: 200,
      latency_us: 1,
    },
    ...changes,
  };
}

/** As the version before does. */
async function oldInsert(entries: readonly Record<string, string | number>[]): Promise<void> {
  for (const entry of entries.filter((each) => "received_at" in each)) {
    await database.ownerSql`insert into entries ${database.ownerSql([entry])}`;
  }
  const others = entries.filter((each) => !("received_at" in each));
  if (others.length === 0) return;
  await database.sql`
    insert into entries ${database.sql(others)} on conflict (producer_id, producer_sequence) do nothing`;
}
