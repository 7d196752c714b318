import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPlantedDatabase,
  PLANTED_ROWS,
  type PlantedDatabase,
  plantedHash,
  plantedId,
  type StoreCalls,
  storeFunctions,
} from "#tests/support/database/planted-database.ts";
import { producedEntry } from "./entries/entry.fixture.ts";
import * as entries from "./entries/entry-store.ts";
import { storeEntries } from "./entries/store-entries.ts";
import * as intents from "./intake/intent-store.ts";
import * as checkpoints from "./log/checkpoint-store.ts";
import { MAINTENANCE_SESSION } from "./log/maintain-log.ts";
import * as retention from "./log/retention-store.ts";
import { SEQUENCER_SESSION } from "./log/sequencer.ts";
import * as sequencer from "./log/sequencer-store.ts";
import * as tree from "./log/tree-store.ts";
import * as counts from "./query/login-count-store.ts";

const ORIGIN = "audit.example";
const UNNUMBERED = 10;
const NUMBERED = PLANTED_ROWS - UNNUMBERED;
const LIMIT = 10;
/** Of two months and the one that has begun. Each is large on every day of the year: a few rows would be read whole. */
const IN_FORMER_MONTHS = 0.9 * PLANTED_ROWS;
const THIS_MONTH = "date_trunc('month', now(), 'UTC')";
const AT = `date_trunc('milliseconds', case when n <= ${IN_FORMER_MONTHS}
  then ${THIS_MONTH} - interval '2 months' + n * interval '59 days' / ${IN_FORMER_MONTHS}
  else ${THIS_MONTH} + (n - ${IN_FORMER_MONTHS}) * (now() - ${THIS_MONTH}) / ${PLANTED_ROWS - IN_FORMER_MONTHS} end)`;
const LARGE = {
  log_entries: {
    position: "n",
    received_at: AT,
    occurred_at: AT,
    kind: "case when n % 2 = 0 then 'outcome' else 'intent' end",
    action: "case when n % 5 = 0 then 'auth.login' else 'payments.create' end",
    outcome: "case when n % 2 = 0 then 'success' else '' end",
    call_id: "'call-' || n / 2",
    actor_user_id: "'user-' || n % 1000",
    resource: "'resource-' || n",
    request_id: "'request-' || n / 2",
    producer_sequence: "n",
    http_status: "201",
  },
  claimed_emails: { position: "n", received_at: AT, address: "'user' || n || '@example.com'" },
  checkpoints: { origin: `'${ORIGIN}'`, size: "n", floor_position: "n", created_at: AT },
  subtrees: { level: "8", index: "n - 1", hash: "sha256(n::text::bytea)" },
  stored_keys: {
    position: "n",
    day: "(now() at time zone 'UTC')::date",
    producer_sequence: "n",
    received_at: "now()",
  },
  stored_keys_default: { position: "n", day: "'2020-01-01'", producer_sequence: "n", received_at: AT },
  login_counts: {
    hour: `date_trunc('hour', now()) - (${PLANTED_ROWS} - n) / 3 * interval '1 hour'`,
    kind: "(array['login', 'failure', 'refusal'])[n % 3 + 1]",
    reason: "''",
    count: "1",
  },
};

let database: PlantedDatabase;
beforeAll(async () => {
  database = await createPlantedDatabase("audit-service", {
    before: `set local role gatehouse_audit_owner;
      select create_log_partition((now() - months * interval '1 month')::date) from generate_series(0, 3) as months`,
    large: LARGE,
    small: {
      open_intents: {
        rows: 100,
        columns: {
          call_id: `'call-' || ${NUMBERED} / 2 + n`,
          producer_id: `'${plantedId(7)}'::uuid`,
          position: `${PLANTED_ROWS} - n`,
          received_at: "now()",
        },
      },
      producers: { rows: 50, columns: { last_seen_at: "now()" } },
    },
    after: `
      insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
      select n, n, ${AT}, sha256(n::text::bytea), sha256(n::text::bytea) from generate_series(1, ${NUMBERED}) as n;
      update login_count_progress set sequence = ${NUMBERED - LIMIT};
      update producers set last_seen_at = now() - interval '2 days' where producer_id = '${plantedId(8)}'`,
  });
});
afterAll(() => database.drop());

const now = new Date();
const daysAgo = (days: number) => new Date(now.getTime() - days * 86_400_000);
const span = { interval: "hour" as const, from: daysAgo(1), to: now };
const hash = plantedHash(1);
const leaf = { position: BigInt(PLANTED_ROWS), receivedAt: now, leafHash: hash, chainHash: hash };
const search = (filter: entries.EntryFilter) => (tx: Parameters<typeof entries.selectEntries>[0]) =>
  entries.selectEntries(tx, filter, LIMIT);

const INTAKE: StoreCalls = {
  insertEntries: (tx) => {
    const producerId = randomUUID();
    const produced = producedEntry(1);
    const entry = { ...produced, origin: { ...produced.origin, producerId } };
    return storeEntries({ insertEntries: (rows) => entries.insertEntries(tx, rows) }, [entry]);
  },
  selectEntriesById: (tx) => entries.selectEntriesById(tx, [plantedId(7), plantedId(NUMBERED)]),
  deleteClaimedEmail: (tx) => entries.deleteClaimedEmail(tx, "User7@example.com"),
  upsertProducers: (tx) => intents.upsertProducers(tx, [plantedId(7)]),
  selectAbandonedIntents: (tx) => intents.selectAbandonedIntents(tx, 0, LIMIT),
  deleteOpenIntents: (tx) => intents.deleteOpenIntents(tx, ["call-7"]),
};
const MAINTENANCE: StoreCalls = {
  deleteOldProducers: (tx) => intents.deleteOldProducers(tx),
  createKeyPartitions: (tx) => entries.createKeyPartitions(tx, 3),
  dropKeyPartitions: (tx) => entries.dropKeyPartitions(tx, 31),
  deleteOldKeys: (tx) => entries.deleteOldKeys(tx, 31, LIMIT),
  createPartitions: (tx) => retention.createPartitions(tx, 3),
  createLeafPartitions: (tx) => retention.createLeafPartitions(tx),
  selectPartitions: (tx) => retention.selectPartitions(tx),
  selectRemovals: (tx) => retention.selectRemovals(tx),
  selectCut: (tx) => retention.selectCut(tx, daysAgo(30)),
  isCleanCut: (tx) =>
    retention.isCleanCut(tx, { last: 7_000, ending: daysAgo(30), floorPosition: BigInt(NUMBERED) }),
  // The oldest month with entries: nearly all checkpoints are newer.
  detachPartition: async (tx) => {
    const [oldest] = await tx<{ name: string; last: string }[]>`
      select 'log_entries_' || to_char(month, 'YYYY_MM') as name, last_sequence as last from log_months order by month limit 1
    `;
    if (oldest === undefined) throw new Error("no month has entries");
    const partitionName = oldest.name;
    const removal = { firstSequence: 1, lastSequence: Number(oldest.last), partitionName, note: "" };
    await retention.insertRemoval(tx, removal);
    await retention.detachPartition(tx, partitionName);
  },
  selectUncleanRemovals: (tx) => retention.selectUncleanRemovals(tx),
  deleteClaims: (tx) => retention.deleteClaims(tx, { before: daysAgo(30), after: 0n, limit: LIMIT }),
  "deleteClaims: further on": (tx) =>
    retention.deleteClaims(tx, { before: daysAgo(30), after: 5_000n, limit: LIMIT }),
  deleteForgottenIntents: (tx) => retention.deleteForgottenIntents(tx, daysAgo(30), LIMIT),
  hasStrayEntries: (tx) => retention.hasStrayEntries(tx),
  deleteOldLoginCounts: (tx) => counts.deleteOldLoginCounts(tx, Math.floor(PLANTED_ROWS / 3 / 24)),
};
const NUMBERING: StoreCalls = {
  tryLock: (tx) => sequencer.tryLock(tx),
  selectReplicas: (tx) => sequencer.selectReplicas(tx, "audit-service sequencer "),
  selectTermState: (tx) => sequencer.selectTermState(tx),
  selectUnnumbered: (tx) =>
    sequencer.selectUnnumbered(tx, { position: BigInt(NUMBERED), sequence: NUMBERED }, LIMIT, undefined),
  "selectUnnumbered: after a start": (tx) =>
    sequencer.selectUnnumbered(tx, { position: BigInt(NUMBERED - LIMIT), sequence: 0 }, LIMIT, undefined),
  "selectUnnumbered: of a month": (tx) =>
    sequencer.selectUnnumbered(tx, { position: BigInt(NUMBERED), sequence: NUMBERED }, LIMIT, daysAgo(30)),
  selectLastPosition: (tx) => sequencer.selectLastPosition(tx),
  hasTransactionFromBefore: (tx) => sequencer.hasTransactionFromBefore(tx, now),
  insertBatch: (tx) =>
    sequencer.insertBatch(tx, { leaves: [{ ...leaf, sequence: NUMBERED + 1 }], subtrees: [] }),
  // After others, for which the trigger has settled for its plans.
  "insertBatch: the first of a month": (tx) =>
    sequencer.insertBatch(tx, {
      leaves: [{ ...leaf, sequence: NUMBERED + 1, receivedAt: daysAgo(-40) }],
      subtrees: [],
    }),
  selectNodes: (tx) =>
    tree.selectNodes(tx, [
      { level: 3, index: 7 },
      { level: 9, index: 3 },
    ]),
  selectLeaf: (tx) => tree.selectLeaf(tx, 7_000),
  selectSize: (tx) => tree.selectSize(tx),
  selectOriginAmong: (tx) => checkpoints.selectOriginAmong(tx, [`${ORIGIN}/1`, `${ORIGIN}/2`]),
  selectLastCheckpoint: (tx) => checkpoints.selectLastCheckpoint(tx, ORIGIN),
  selectFloor: (tx) => checkpoints.selectFloor(tx),
};
const READS: StoreCalls = {
  "selectEntries: newest": search({}),
  "selectEntries: of an actor": search({ actorUserId: "user-7" }),
  "selectEntries: of a request": search({ requestId: "request-7" }),
  "selectEntries: an old day": search({ from: daysAgo(40), to: daysAgo(39) }),
  "selectEntries: a later page": search({ after: { occurredAt: daysAgo(40), position: 1_000n } }),
  selectProvenEntries: (tx) => entries.selectProvenEntries(tx, { first: 7_000, last: 7_000 + LIMIT }),
  selectCheckpointCovering: (tx) => checkpoints.selectCheckpointCovering(tx, ORIGIN, 7_000),
  selectNotingEntries: (tx) => checkpoints.selectNotingEntries(tx, `${ORIGIN}/1`, LIMIT),
  selectCheckpoints: (tx) =>
    checkpoints.selectCheckpoints(tx, ORIGIN, { after: 7_000, last: 9_000, limit: LIMIT }),
  "selectNodes: of a proof": (tx) =>
    tree.selectNodes(tx, [
      { level: 3, index: 7 },
      { level: 9, index: 3 },
    ]),
  countNextEntries: (tx) => counts.countNextEntries(tx, LIMIT),
  selectLoginBuckets: (tx) => counts.selectLoginBuckets(tx, span),
  selectRefusals: (tx) => counts.selectRefusals(tx, span, LIMIT),
  selectOpenIntents: (tx) => counts.selectOpenIntents(tx, 0, LIMIT),
  selectCountProgress: (tx) => counts.selectCountProgress(tx),
};

/** Parts of statements, and statements that ask for no row. */
const OTHERS = ["columns", "assertReadable", "unlock"];

test("every function that reads or changes rows is looked at", async () => {
  const names = Object.keys({ ...INTAKE, ...MAINTENANCE, ...NUMBERING, ...READS });
  const called = new Set([...OTHERS, ...names.map((name) => name.split(":")[0])]);
  expect((await storeFunctions(import.meta.dirname)).filter((name) => !called.has(name))).toEqual([]);
});

const withoutTimeouts = (session: Readonly<Record<string, string | number>>) =>
  Object.fromEntries(Object.entries(session).filter(([name]) => !name.endsWith("timeout")));

test.each([
  ["intake", INTAKE, {}],
  ["maintenance", MAINTENANCE, withoutTimeouts(MAINTENANCE_SESSION)],
  ["numbering", NUMBERING, withoutTimeouts(SEQUENCER_SESSION)],
  ["reads", READS, { plan_cache_mode: "force_custom_plan" }],
])("no statement of %s reads a large table, or a large part of it", async (_name, calls, session) => {
  expect(await database.findOffences(calls, session)).toEqual([]);
});
