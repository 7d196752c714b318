import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createLogger } from "../telemetry/logger.ts";
import { OutboxWorker, type OutboxWorkerOptions } from "./outbox.ts";
import { claimDue } from "./outbox-store.ts";

interface Letter {
  id: string;
}

const LEASE_MS = 10_000;
const START_MS = Date.parse("2031-01-02T03:04:05Z");

let database: TestDatabase;
let clockMs: number;
const stops: (() => Promise<void>)[] = [];
beforeAll(async () => {
  database = await createTestDatabase("token-service");
  await database.ownerSql`
    create table letters (
      id text primary key, next_attempt_at timestamptz not null, attempts integer not null default 0, delivered_at timestamptz
    )`;
});
beforeEach(() => {
  clockMs = START_MS;
});
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
  await emptyTables(database.ownerSql, "letters");
});
afterAll(() => database.drop());

const now = () => new Date(clockMs);
const write = (id: string, dueMs = clockMs) =>
  database.ownerSql`insert into letters (id, next_attempt_at) values (${id}, ${new Date(dueMs)})`;
const writeMany = (count: number) =>
  database.ownerSql`
    insert into letters (id, next_attempt_at)
    select 'letter ' || lpad(n::text, 4, '0'), ${now()}::timestamptz + n * interval '1 millisecond' - interval '1 hour'
    from generate_series(1, ${count}::int) as n`;
const claim = (limit: number, leaseMs = LEASE_MS, at: Date | undefined = now()) => {
  const sql = database.ownerSql;
  const table = {
    name: "letters",
    waiting: sql`delivered_at is null`,
    columns: sql`claimed.id`,
    countsAttempts: true,
  };
  return claimDue<Letter>(sql, table, { limit, leaseMs, ...(at && { now: at }) });
};
const waiting = async () => {
  const rows = await database.ownerSql<
    { id: string }[]
  >`select id from letters where delivered_at is null order by id`;
  return rows.map(({ id }) => id);
};

/** A worker of one replica, and what its receiver got, in order. */
function replica(change: Partial<OutboxWorkerOptions<Letter, void>> = {}) {
  const received: string[] = [];
  const logLines: string[] = [];
  const worker = new OutboxWorker<Letter>({
    what: "letters",
    pollIntervalMs: 3_600_000,
    leaseMs: LEASE_MS,
    maxBatch: 5,
    claim: ({ limit, leaseMs }) => claim(limit, leaseMs),
    deliver: async ({ id }) => void received.push(id),
    mark: async ({ id }) => {
      await database.ownerSql`update letters set delivered_at = ${now()} where id = ${id}`;
    },
    backlog: async () => ({ count: (await waiting()).length, oldest: new Date(START_MS) }),
    now,
    logger: createLogger("test", "info", { write: (line) => void logLines.push(line) }),
    ...change,
  });
  stops.push(() => worker.stop());
  return { worker, received, logLines };
}

test("due rows are delivered once and marked; later ones are not", async () => {
  await write("now");
  await write("later", clockMs + 1);
  const { worker, received } = replica();
  await worker.poll();
  await worker.poll();
  expect(received).toEqual(["now"]);
  expect(await waiting()).toEqual(["later"]);
  clockMs += 1;
  await worker.poll();
  expect(received).toEqual(["now", "later"]);
});

test("the longest due is claimed first, and no more than the limit", async () => {
  for (const [index, id] of ["c", "a", "d", "b"].entries()) await write(id, clockMs - index);
  expect((await claim(2)).map(({ id }) => id).sort()).toEqual(["b", "d"]);
  expect((await claim(2)).map(({ id }) => id).sort()).toEqual(["a", "c"]);
});

test("batches are delivered in the order in which they are due, one after the other", async () => {
  await writeMany(12);
  const { worker, received } = replica();
  await worker.poll();
  const batches = [received.slice(0, 5), received.slice(5, 10), received.slice(10)];
  expect(batches.map((batch) => batch.sort())).toEqual(
    [
      [1, 2, 3, 4, 5],
      [6, 7, 8, 9, 10],
      [11, 12],
    ].map((batch) => batch.map((number) => `letter ${String(number).padStart(4, "0")}`)),
  );
});

test("rows claimed by a killed process are delivered by another only after the lease has ended", async () => {
  await write("claimed");
  expect(await claim(5)).toHaveLength(1);
  const { worker, received } = replica();
  clockMs += LEASE_MS - 1;
  await worker.poll();
  expect(received).toEqual([]);
  clockMs += 1;
  await worker.poll();
  expect(received).toEqual(["claimed"]);
});

test("a claimed row has one owner by the database's clock too", async () => {
  await write("due", Date.parse("2001-01-01T00:00:00Z"));
  const byDatabase = () => {
    const sql = database.ownerSql;
    const table = { name: "letters", waiting: sql`delivered_at is null`, columns: sql`claimed.id` };
    return claimDue<Letter>(sql, table, { limit: 5, leaseMs: 3_600_000 });
  };
  expect(await byDatabase()).toEqual([{ id: "due" }]);
  expect(await byDatabase()).toEqual([]);
  await database.ownerSql`update letters set next_attempt_at = next_attempt_at - interval '1 hour'`;
  expect(await byDatabase()).toEqual([{ id: "due" }]);
});

test("four replicas at once deliver each of two hundred rows once", async () => {
  await writeMany(200);
  const replicas = Array.from({ length: 4 }, () => replica());
  while ((await waiting()).length > 0) await Promise.all(replicas.map(({ worker }) => worker.poll()));
  const received = replicas.flatMap((each) => each.received);
  expect([received.length, new Set(received).size]).toEqual([200, 200]);
});

test("a row is not marked before its receiver has it", async () => {
  await write("one");
  const seen: string[][] = [];
  const deliver = async () => void seen.push(await waiting());
  await replica({ deliver }).worker.poll();
  expect([seen, await waiting()]).toEqual([[["one"]], []]);
});

test("a failed row waits for the end of its lease, and its batch is the last of the poll", async () => {
  await writeMany(12);
  let isAway = true;
  const received: string[] = [];
  const deliver = async ({ id }: Letter) => {
    if (isAway && id === "letter 0002") throw new Error("away");
    received.push(id);
  };
  const { worker, logLines } = replica({ deliver });
  await worker.poll();
  expect(received).toHaveLength(4);
  expect(logLines.join()).toContain('"outbox":"letters","id":"letter 0002"');
  await worker.poll();
  expect(await waiting()).toEqual(["letter 0002"]);
  isAway = false;
  clockMs += LEASE_MS;
  await worker.poll();
  expect(await waiting()).toEqual([]);
});

test("if a failure is recorded the next batch follows; if that fails too, it does not", async () => {
  await writeMany(12);
  const failed: string[] = [];
  const deliver = async () => Promise.reject(new Error("away"));
  const onFailure = async ({ id }: Letter) => void failed.push(id);
  await replica({ deliver, onFailure }).worker.poll();
  expect(failed).toHaveLength(12);
  clockMs += LEASE_MS;
  const { worker, logLines } = replica({ deliver, onFailure: deliver });
  await worker.poll();
  expect(logLines.filter((line) => line.includes("could not be recorded"))).toHaveLength(5);
});

test("a mark that fails briefly is retried, and nothing is delivered twice", async () => {
  await write("one");
  let failures = 0;
  const { worker, received } = replica({
    mark: async ({ id }) => {
      failures += 1;
      if (failures < 3) throw new Error("the database is away");
      await database.ownerSql`update letters set delivered_at = ${now()} where id = ${id}`;
    },
  });
  await worker.poll();
  clockMs += LEASE_MS;
  await worker.poll();
  expect([failures, received, await waiting()]).toEqual([3, ["one"], []]);
});

test("a mark that fails until the lease ends is logged, and the row is delivered again", async () => {
  await write("one");
  const mark = async () => Promise.reject(new Error("the database is away"));
  const { worker, received, logLines } = replica({ mark, leaseMs: 300 });
  await worker.poll();
  expect(logLines.map((line) => JSON.parse(line).level)).toEqual(["error"]);
  clockMs += 300;
  await worker.poll();
  expect(received).toEqual(["one", "one"]);
});

test("a poll delivers at most a hundred rows; the rest follows at once", async () => {
  await writeMany(130);
  const { worker } = replica();
  await worker.poll();
  expect(await waiting()).toHaveLength(30);
  const woken = replica();
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  woken.worker.start();
  vi.useRealTimers();
  await database.ownerSql`update letters set delivered_at = null`;
  await database.ownerSql`update letters set next_attempt_at = ${now()}`;
  woken.worker.wake();
  await expect.poll(waiting).toEqual([]);
  expect(woken.received).toHaveLength(130);
});

test("a stopping worker claims no more, and waits for and marks running deliveries", async () => {
  await writeMany(12);
  const isThere = Promise.withResolvers<void>();
  const mayEnd = Promise.withResolvers<void>();
  const deliver = async () => {
    isThere.resolve();
    await mayEnd.promise;
  };
  const { worker } = replica({ deliver });
  worker.start();
  worker.wake();
  await isThere.promise;
  const stopped = worker.stop();
  worker.wake();
  mayEnd.resolve();
  await stopped;
  expect(await waiting()).toHaveLength(7);
});

test("a stopping worker aborts a delivery that takes too long", async () => {
  await write("one");
  const isThere = Promise.withResolvers<void>();
  const deliver = (_letter: Letter, signal: AbortSignal) =>
    new Promise<void>((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Error("given up")));
      isThere.resolve();
    });
  const { worker } = replica({ deliver });
  worker.start();
  worker.wake();
  await isThere.promise;
  await worker.stop();
  expect(await waiting()).toEqual(["one"]);
});

test("what is long done is deleted in batches, as long as they are full, twenty at the most", async () => {
  const found = [1_000, 1_000, 3, 1_000];
  const forget = vi.fn(async (_limit: number) => found.shift() ?? 0);
  await replica({ forget }).worker.cleanUp();
  expect(forget.mock.calls).toEqual([[1_000], [1_000], [1_000]]);
  const endless = vi.fn(async (limit: number) => limit);
  await replica({ forget: endless }).worker.cleanUp();
  expect(endless).toHaveBeenCalledTimes(20);
  await replica().worker.cleanUp();
});

test("how many wait and how old the oldest is are shown as of the last poll; a clock behind shows no negative age", async () => {
  await write("later", clockMs + 1_000);
  const { worker } = replica();
  const shown = () => [worker.backlogCount, worker.oldestAgeS];
  expect(shown()).toEqual([0, 0]);
  clockMs = START_MS + 500;
  await worker.poll();
  expect(shown()).toEqual([1, 0.5]);
  clockMs = START_MS - 500;
  expect(shown()).toEqual([1, 0]);
});
