import { afterAll, beforeAll, expect, test } from "vitest";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { type EntryFilter, selectEntries } from "../entries/entry-store.ts";

const ENTRIES = 30_000;
const LIMIT = 51;
/** Of all entries; a page of 50 reads no more, however its filters fit together. */
const MAX_READ = ENTRIES / 20;
const START_MS = Date.UTC(2026, 0, 1);
const hour = (count: number) => new Date(START_MS + count * 3_600_000);

let database: TestDatabase;

/** Three months of an entry every four minutes: one action in three never fails, one entry in a thousand is rare. */
beforeAll(async () => {
  database = await createTestDatabase("audit-service");
  await database.ownerSql.unsafe(`
    select create_log_partition(month::date) from generate_series('2026-01-01'::date, '2026-03-01', '1 month') as month;
    insert into log_entries
    select n, time, gen_random_uuid(), '0190b6a0-0000-4000-8000-0000000000aa', n, 'gateway', time, 'outcome', 'call-' || n,
      case when n % 1000 = 1 then 'rare' when n % 2 = 0 then 'busy' else 'user-' || n % 500 end, 'USER', 'session', '',
      '203.0.113.7', 'curl', 'POST', '/payments', 'resource-' || n % 5000,
      case when n % 1000 = 2 then 'rare.one' when n % 3 = 0 then 'always-ok' else 'action.' || n % 7 end, 'request-' || n, '',
      case when n % 1000 = 4 then 'unknown' when n % 3 > 0 and n % 10 < 3 then 'failure' else 'success' end, '', '', 201, 1
    from (
      select n, '2026-01-01T00:00:00Z'::timestamptz + interval '4 minutes' * (n * 30 / 31) as time
      from generate_series(1, ${ENTRIES}) as n
    ) as numbers`);
  await database.ownerSql.unsafe("analyze log_entries");
});

afterAll(() => database.drop());

test.each<[string, EntryFilter]>([
  ["nothing", {}],
  ["an actor", { actorUserId: "user-7" }],
  ["a busy actor", { actorUserId: "busy" }],
  ["an actor who is not there", { actorUserId: "nobody" }],
  ["a common action", { action: "always-ok" }],
  ["a rare action", { action: "rare.one" }],
  ["a common group of actions", { action: "action." }],
  ["a rare group of actions", { action: "rare." }],
  ["a group of actions that is not there", { action: "not." }],
  ["a common group of actions and a rare outcome", { action: "action.", outcome: "unknown" }],
  ["a common group of actions in an old hour", { action: "action.", from: hour(24), to: hour(25) }],
  ["all but a common action", { withoutActions: ["always-ok", "not-there"] }],
  ["a resource", { resource: "resource-77" }],
  ["a common outcome", { outcome: "success" }],
  ["a rare outcome", { outcome: "unknown" }],
  ["a request", { requestId: "request-77" }],
  ["an old hour", { from: hour(24), to: hour(25) }],
  ["all before an old hour", { to: hour(25) }],
  ["a common action in an old hour", { action: "always-ok", from: hour(24), to: hour(25) }],
  ["an actor and a rare outcome", { actorUserId: "busy", outcome: "unknown" }],
  ["a common action and a common outcome", { action: "action.1", outcome: "failure" }],
  ["a common action and a common outcome that never meet", { action: "always-ok", outcome: "failure" }],
])("a search for %s reads a small part of the log", async (_name, filter) => {
  const read = await transaction(database.sql, async (tx) => {
    await selectEntries(tx as unknown as Sql, filter, LIMIT);
    const [row] = await tx<{ read: number }[]>`
      select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read
      from pg_stat_xact_user_tables where relname like 'log_entries%'`;
    return row?.read ?? Number.NaN;
  });
  expect(read).toBeLessThan(MAX_READ);
});
