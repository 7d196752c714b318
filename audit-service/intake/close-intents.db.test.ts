import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { substituteId } from "../entries/clean-entry.ts";
import { producedEntry, sampleEntry, store } from "../entries/entry.fixture.ts";
import type { Entry } from "../entries/entry.ts";
import { selectEntries } from "../entries/entry-store.ts";
import { createIntentCloser } from "./close-intents.ts";
import { deleteOpenIntents, selectAbandonedIntents, upsertProducers } from "./intent-store.ts";

const AFTER_S = 60;
let database: TestDatabase;
let clockMs: number;
/** Of the database's clock. */
let databaseAheadMs: number;
let nextSequence: number;

beforeEach(async () => {
  database = await createTestDatabase("audit-service");
  clockMs = 0;
  databaseAheadMs = 0;
  nextSequence = 1;
});

afterEach(() => database.drop());

test("an intent of a lost producer gets one outcome unknown, with any number of replicas", async () => {
  const producer = crypto.randomUUID();
  await intent("call-1", producer);
  await age(61);
  const replicas = [replica(), replica(), replica()];
  for (const each of replicas) await each.watchFor(AFTER_S + 1);
  await Promise.all(replicas.map((each) => each.run()));
  await Promise.all(replicas.map((each) => each.run()));

  const entries = await entriesOf("call-1");
  expect(entries.map(({ kind, outcome, producer: from }) => [kind, outcome, from])).toEqual([
    ["outcome", "unknown", "audit-service"],
    ["intent", "", "gateway"],
  ]);
  const intended = entries[1] as Entry;
  expect(entries[0]).toMatchObject({
    actor: { userId: intended.actor.userId },
    route: intended.route,
    action: intended.action,
    requestId: intended.requestId,
  });
  expect(replicas.reduce((sum, { closed }) => sum + closed(), 0)).toBe(1);
});

test("an intent stays open while its producer has a stream to any replica", async () => {
  const producer = crypto.randomUUID();
  await intent("call-1", producer);
  await age(3_600);
  const [withStream, closer] = [replica([producer]), replica()];
  await withStream.watchFor(5);
  await closer.watchFor(AFTER_S + 1);
  await withStream.run();
  await closer.run();
  expect(await entriesOf("call-1")).toHaveLength(1);
});

test("an intent is closed once its producer was away for the configured time", async () => {
  const producer = crypto.randomUUID();
  await intent("call-1", producer);
  await replica([producer]).run();
  const closer = replica();
  await age(59);
  await closer.watchFor(AFTER_S + 1);
  expect(await entriesOf("call-1")).toHaveLength(1);
  await age(2);
  await closer.run();
  expect(await entriesOf("call-1")).toHaveLength(2);
});

test("a replica closes nothing just after a start, a pause or a database failure", async () => {
  await intent("call-1", crypto.randomUUID());
  await age(600);
  const closer = replica();
  await closer.run();
  await closer.watchFor(AFTER_S - 6);
  expect(await entriesOf("call-1")).toHaveLength(1);

  clockMs += 600_000; // stopped and continued
  await closer.run();
  expect(await entriesOf("call-1")).toHaveLength(1);

  await closer.watchFor(AFTER_S - 6);
  closer.failOnce();
  await closer.run().catch(() => undefined);
  await closer.watchFor(10);
  expect(await entriesOf("call-1")).toHaveLength(1);

  await closer.watchFor(AFTER_S);
  expect(await entriesOf("call-1")).toHaveLength(2);
});

test("after a step of the database's clock, producers at other replicas do not count as lost", async () => {
  const producer = crypto.randomUUID();
  await intent("call-1", producer);
  const [withStream, closer] = [replica([producer]), replica()];
  await closer.watchFor(AFTER_S + 1);
  await withStream.run();
  await stepDatabaseClock(3_600);
  await closer.watchFor(1); // before the other replica has come to note the producer again
  expect(await entriesOf("call-1")).toHaveLength(1);
  await withStream.run();
  await closer.watchFor(AFTER_S + 1);
  expect(await entriesOf("call-1")).toHaveLength(1);

  await age(AFTER_S + 1); // and now it is gone
  await closer.run();
  expect(await entriesOf("call-1")).toHaveLength(2);
});

test("upsertProducers returns the database time", async () => {
  const nowMs = async () => Number((await database.sql<{ now: Date }[]>`select now() as now`)[0]?.now);
  const beforeMs = await nowMs();
  const noted = Number(await upsertProducers(database.sql, []));
  expect(noted).toBeGreaterThanOrEqual(beforeMs);
  expect(noted).toBeLessThanOrEqual(await nowMs());
});

test("entries under the closings' producer id and numbers cannot suppress a closing", async () => {
  const CLOSINGS = "6761746c-6f67-8000-8000-636c6f736507";
  await store(
    database.sql,
    Array.from({ length: 20 }, (_, index) => ({
      // Positions are easy to guess: the intent's will be 21.
      origin: { producerId: CLOSINGS, producerName: "token-service", sequence: index + 10 },
      entry: sampleEntry({
        id: substituteId({ producerId: CLOSINGS, producerName: "", sequence: index + 10 }),
      }),
    })),
  );
  await intent("call-1", crypto.randomUUID());
  expect((await database.sql`select position::int from open_intents`)[0]?.position).toBe(21);
  await age(600);
  const closer = replica();
  await closer.watchFor(AFTER_S + 1);
  expect((await entriesOf("call-1")).map(({ outcome }) => outcome).sort()).toEqual(["", "unknown"]);
  const own = database.sql`select from log_entries where producer_id = ${CLOSINGS} and producer_name = 'audit-service'`;
  expect(await own).toHaveLength(1);
});

test("an intent with an outcome is not closed, whether stored together, apart or by two replicas", async () => {
  const producer = crypto.randomUUID();
  await intent("apart", producer);
  await outcome("apart", producer);
  const together = [entry("together", "intent", producer), entry("together", "outcome", producer)];
  await store(database.sql, together);
  await intent("leaked", producer);
  const [kept] = await database.ownerSql`select * from open_intents where call_id = 'leaked'`;
  await outcome("leaked", producer);
  await database.ownerSql`insert into open_intents ${database.ownerSql(kept ?? {})}`;
  await age(600);
  const closer = replica();
  await closer.watchFor(AFTER_S + 1);
  for (const call of ["apart", "together", "leaked"]) expect(await entriesOf(call)).toHaveLength(2);
  expect(await database.sql`select from open_intents`).toHaveLength(0);
});

test("of one batch, only an intent without an outcome is open", async () => {
  const calls = ["call-1", "call-2"].map((callId) => ({ kind: "intent" as const, callId }));
  const outcome = { kind: "outcome" as const, callId: "call-1" };
  const batch = [...calls, outcome].map((changes, index) => producedEntry(index + 1, changes));
  await store(database.sql, batch);
  expect(await database.sql`select call_id from open_intents`).toEqual([{ call_id: "call-2" }]);
});

test("an outcome after the closing is stored too", async () => {
  const producer = crypto.randomUUID();
  await intent("call-1", producer);
  await age(600);
  await replica().watchFor(AFTER_S + 1);
  await outcome("call-1", producer);
  const entries = await entriesOf("call-1");
  expect(entries.map(({ outcome: what }) => what).sort()).toEqual(["", "failure", "unknown"]);
});

function replica(present: string[] = []) {
  let closed = 0;
  let isFailing = false;
  const { sql } = database;
  const run = createIntentCloser({
    log: 7,
    afterS: AFTER_S,
    present: () => present,
    upsertProducers: async (ids) => {
      if (isFailing) {
        isFailing = false;
        throw new Error("away");
      }
      await upsertProducers(sql, ids);
      return new Date(clockMs + databaseAheadMs);
    },
    selectAbandonedIntents: (afterS, limit) => selectAbandonedIntents(sql, afterS, limit),
    deleteOpenIntents: (callIds) => deleteOpenIntents(sql, callIds),
    storeEntries: (entries) => store(sql, entries),
    onClosed: (count) => {
      closed += count;
    },
    now: () => new Date(),
    newId: () => crypto.randomUUID(),
    monotonicMs: () => clockMs,
  });
  return {
    run,
    closed: () => closed,
    failOnce: () => {
      isFailing = true;
    },
    /** Runs every five seconds for this long. */
    async watchFor(seconds: number) {
      for (let passed = 0; passed <= seconds; passed += 5) {
        clockMs += 5_000;
        await run();
      }
    },
  };
}

/** Everything noted so far was noted this much earlier. */
async function age(seconds: number): Promise<void> {
  const { ownerSql } = database;
  await ownerSql`update producers set last_seen_at = last_seen_at - make_interval(secs => ${seconds})`;
  await ownerSql`alter table log_entries disable trigger append_only`;
  await ownerSql`update log_entries set received_at = received_at - make_interval(secs => ${seconds})`;
  await ownerSql`update open_intents set received_at = received_at - make_interval(secs => ${seconds})`;
}

/** To it, everything that was noted is this much older from one moment to the next. */
async function stepDatabaseClock(seconds: number): Promise<void> {
  await age(seconds);
  databaseAheadMs += seconds * 1_000;
}

function entry(callId: string, kind: "intent" | "outcome", producerId: string) {
  const what = kind === "intent" ? ({ outcome: "", httpStatus: 0, latencyUs: 0 } as const) : {};
  const sequence = nextSequence++;
  return {
    origin: { producerId, producerName: "gateway", sequence },
    entry: sampleEntry({ kind, callId, requestId: `request of ${callId}`, ...what }),
  };
}

async function intent(callId: string, producerId: string): Promise<void> {
  await store(database.sql, [entry(callId, "intent", producerId)]);
}

async function outcome(callId: string, producerId: string): Promise<void> {
  await store(database.sql, [entry(callId, "outcome", producerId), producedEntry(nextSequence++)]);
}

async function entriesOf(callId: string) {
  const found = await selectEntries(database.sql, { requestId: `request of ${callId}` }, 10);
  return found.map((each) => each.entry);
}
