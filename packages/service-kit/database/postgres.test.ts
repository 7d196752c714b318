import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { type FakePostgres, SELECTED, startFakePostgres } from "#tests/support/database/fake-postgres.ts";
import { ConfigError, Secret } from "../config/config.ts";
import { callTimeLeftMs, withCallDeadline } from "../values/call-deadline.ts";
import {
  assertSessions,
  connectPostgres,
  isUniqueViolation,
  onOneConnection,
  openConnections,
  openPool,
  type Sql,
  type TransactionSql,
  transaction,
} from "./postgres.ts";

const uncaught = vi.fn();
beforeAll(() => {
  process.on("uncaughtException", uncaught);
  process.on("unhandledRejection", uncaught);
});
afterAll(() => {
  process.off("uncaughtException", uncaught);
  process.off("unhandledRejection", uncaught);
});

let server: FakePostgres;
let sql: Sql;

afterEach(async () => {
  await sql.end({ timeout: 0 });
  server.close();
  // A late write would throw outside of every promise. That none comes can only be waited for.
  await sleep(50);
  expect(uncaught).not.toHaveBeenCalled();
  uncaught.mockClear();
});

async function start(
  answer?: Parameters<typeof startFakePostgres>[0],
  options: { max?: number; maxWaiting?: number; maxWaitMs?: number; lifetimeMs?: number } = {},
) {
  server = await startFakePostgres(answer);
  sql = openPool({
    url: server.url,
    maxConnections: options.max ?? 1,
    connectTimeoutMs: 60_000,
    maxWaitMs: options.maxWaitMs ?? 60_000,
    maxWaiting: options.maxWaiting ?? 10,
    ...(options.lifetimeMs !== undefined && { lifetimeMs: options.lifetimeMs }),
    driver: { password: "any" },
  });
}

const statements = () => server.received.map(({ text }) => text).filter((text) => !text.includes("pg_type"));
const cut = (how: "end" | "reset") => {
  for (const socket of server.sockets) how === "end" ? socket.destroy() : socket.resetAndDestroy();
};
/** As an answer to a statement. */
const cutNow = (how: "end" | "reset") => {
  cut(how);
  return "nothing" as const;
};
/** Gives the work of a transaction a promise that resolves once the driver has failed the transaction. */
function transactionToLose(work: (tx: TransactionSql, failed: Promise<void>) => Promise<void>) {
  const failed = Promise.withResolvers<void>();
  const done = transaction(sql, (tx) => work(tx, failed.promise));
  done.catch(() => failed.resolve());
  return done;
}
/** What the work of a transaction sees of a lost connection, and what its caller sees. */
const CLOSED = { code: expect.stringMatching(/^(CONNECTION_CLOSED|ECONNRESET|EPIPE)$/) };
const unavailable = (cause: object) => ({ code: "service_unavailable", retryAfterMs: 1_000, cause });

test.each(["end", "reset"] as const)(
  "a connection lost (%s) while a statement of a transaction runs fails the call",
  async (how) => {
    await start(({ text }) => (text.includes("slow") ? cutNow(how) : undefined));
    await expect(transaction(sql, (tx) => tx`select slow`.then(() => 1))).rejects.toMatchObject(
      unavailable(CLOSED),
    );
    await expect(transaction(sql, async (tx) => (await tx`select next`).count)).resolves.toBeDefined();
    expect(statements()).not.toContain("rollback");
  },
);

test.each(["end", "reset"] as const)(
  "a connection lost (%s) between two statements fails the second and the call",
  async (how) => {
    await start();
    const second = vi.fn();
    const work = transactionToLose(async (tx, failed) => {
      await tx`select first`;
      cut(how);
      await failed;
      await tx`select second`.catch((error) => {
        second(error);
        throw error;
      });
    });
    await expect(work).rejects.toMatchObject(unavailable(CLOSED));
    await expect.poll(() => second).toHaveBeenCalledOnce();
    expect(statements()).toEqual(["start", "begin ", "select first"]);
  },
);

test.each(["end", "reset"] as const)(
  "work that continues after its connection was lost (%s) sends nothing",
  async (how) => {
    await start();
    const hasEnded = Promise.withResolvers<void>();
    const late = transaction(sql, async (tx) => {
      const savepoint = () => tx.savepoint((inner) => inner`select inside`);
      cut(how);
      for (let turn = 0; turn < 50; turn += 1) {
        await nextTurn();
        await tx`select again`.catch(() => undefined);
        await savepoint().catch(() => undefined);
        await tx.unsafe("select raw").catch(() => undefined);
      }
      hasEnded.resolve();
    });
    await expect(late).rejects.toMatchObject(unavailable(CLOSED));
    await hasEnded.promise;
    await expect.poll(() => server.sockets.size).toBe(0);
    expect(statements()).toEqual(["start", "begin "]);
  },
);

test("a connection lost inside a savepoint fails the call, and its work goes on to its end", async () => {
  await start(({ text }) => (text.includes("inside") ? cutNow("end") : undefined));
  let failure: unknown;
  const work = transaction(sql, async (tx) => {
    failure = await tx.savepoint((inner) => inner`select inside`).catch((error: unknown) => error);
  });
  await expect(work).rejects.toMatchObject(unavailable(CLOSED));
  await expect.poll(() => failure).toMatchObject(CLOSED);
});

test("a connection lost while its commit is under way fails the call", async () => {
  await start(({ text }) => (text === "commit" ? cutNow("end") : undefined));
  await expect(transaction(sql, async (tx) => (await tx`select 1`).count)).rejects.toMatchObject(
    unavailable(CLOSED),
  );
});

test("work that fails is rolled back, a part of it to where the part began; its own error is what the caller gets", async () => {
  await start();
  const failing = transaction(sql, async (tx) => {
    await tx`select first`;
    const part = tx.savepoint(async (inner) => {
      await inner`select inside`;
      throw new Error("of the part");
    });
    await expect(part).rejects.toMatchObject({ message: "of the part" });
    expect(await tx.savepoint((inner) => inner`select again`.then(() => "of the second part"))).toBe(
      "of the second part",
    );
    throw new Error("its own");
  });
  await expect(failing).rejects.toMatchObject({ message: "its own" });
  expect(statements().map((text) => text.split(" ")[0])).toEqual([
    "start",
    "begin",
    "select",
    "savepoint",
    "select",
    "rollback",
    "savepoint",
    "select",
    "rollback",
  ]);
});

test("the statements of one session have a connection for themselves", async () => {
  await start(undefined, { max: 2 });
  const result = await onOneConnection(sql, async (session) => {
    await session`select a`;
    await Promise.all([sql`select x`, sql`select y`]);
    await session`select b`;
    return "its result";
  });
  expect(result).toBe("its result");
  const connections = new Map(server.received.map(({ text, connection }) => [text, connection]));
  const [a, b, x, y] = ["a", "b", "x", "y"].map((name) => connections.get(`select ${name}`));
  expect([b, y]).toEqual([a, x]);
  expect(x).not.toBe(a);
});

test("work that has ended is not committed on a connection that was lost meanwhile", async () => {
  await start();
  const work = transactionToLose(async (tx, failed) => {
    await tx`select 1`;
    cut("end");
    await failed;
  });
  await expect(work).rejects.toMatchObject(unavailable(CLOSED));
  expect(statements()).not.toContain("commit");
});

test("a transaction whose connection was lost does not stay in memory", async () => {
  await start();
  const cutOne = async () => {
    const work = async (tx: TransactionSql, failed: Promise<void>) => {
      await tx`select 1`;
      cut("end");
      await failed;
    };
    const failure = await transactionToLose(work).catch((error: unknown) => error);
    expect(failure).toMatchObject(unavailable(CLOSED));
    return new WeakRef(work);
  };
  await cutOne(); // the driver remembers the first caller of each statement
  const seen = await cutOne();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  await expect
    .poll(() => {
      collect();
      return seen.deref() === undefined;
    })
    .toBe(true);
});

test("a statement given to a connection in the moment of its loss is never answered as if it had run", async () => {
  await start(undefined, { max: 2 });
  await Promise.all([sql`select 1`, sql`select 2`]);
  for (let round = 0; round < 30; round += 1) {
    cut(round % 2 === 0 ? "reset" : "end");
    for (let turn = 0; turn < 20; turn += 1) {
      const text = `select probe_${round}_${turn}`;
      const result = await sql.unsafe(text).then(
        () => "answered",
        () => "failed",
      );
      if (result === "answered") expect(statements()).toContain(text);
      if (turn % 3 === 0) await nextTurn();
    }
  }
});

test("what a lost connection had not yet sent is not sent by the next", async () => {
  await start();
  await sql`select 1`;
  const lost = Promise.allSettled(Array.from({ length: 5 }, (_, index) => sql.unsafe(`insert ${index}`)));
  cut("reset");
  await lost;
  await sql`select 2`;
  const starts = server.received.filter(({ text }) => text === "start");
  for (const { connection } of starts) {
    expect(server.received.find((one) => one.connection === connection)?.text).toBe("start");
  }
});

test("a server that hangs up before it has answered fails the call, and is not asked without a pause", async () => {
  await start(({ text }) => (text === "start" ? cutNow("end") : undefined), {
    maxWaitMs: 500,
  });
  const startedMs = performance.now();
  while (performance.now() - startedMs < 500) {
    const error = await sql`select 1`.catch((failure: unknown) => failure);
    expect(error).toMatchObject({ code: "service_unavailable" });
  }
  expect(server.received.length).toBeLessThan(10);
});

test("callers that wait for a connection are served in order", async () => {
  await start();
  await Promise.all(Array.from({ length: 8 }, (_, index) => sql.unsafe(`select ${index}`)));
  const order = statements().filter((text) => /^select \d$/.test(text));
  expect(order).toHaveLength(8);
  expect(order.toSorted()).toEqual(order);
});

test("a caller without a free connection gets a new one, up to the maximum", async () => {
  await start(undefined, { max: 2 });
  await Promise.all(Array.from({ length: 8 }, (_, index) => sql.unsafe(`select ${index}`)));
  expect(openConnections(sql)).toBe(2);
});

test("a caller beyond the queue's limit fails at once and sends nothing", async () => {
  await start(({ text }) => (text.includes("hold") ? "nothing" : undefined), { maxWaiting: 2 });
  const held = sql.unsafe("select hold").catch(() => undefined);
  await expect.poll(() => statements().includes("select hold")).toBe(true);
  const waiting = [1, 2].map((index) => sql.unsafe(`select waits_${index}`).catch((error: unknown) => error));
  await nextTurn();
  await expect(sql`select surplus`).rejects.toMatchObject(unavailable({ code: "CONNECTION_BUSY" }));
  await expect(transaction(sql, async () => 1)).rejects.toMatchObject(
    unavailable({ code: "CONNECTION_BUSY" }),
  );
  await expect(onOneConnection(sql, async () => 1)).rejects.toMatchObject(
    unavailable({ code: "CONNECTION_BUSY" }),
  );
  cut("end");
  await Promise.all([held, ...waiting]);
  expect(statements()).not.toContain("select surplus");
});

test("statements of a caller that has disconnected are not sent", async () => {
  let release = () => {};
  await start(({ text, socket }) => {
    if (!text.includes("hold")) return undefined;
    release = () => socket.destroy();
    return "nothing";
  });
  const held = sql.unsafe("select hold").catch(() => undefined);
  await expect.poll(() => statements().includes("select hold")).toBe(true);
  const gone = withCallDeadline(Date.now() + 100, () => transaction(sql, async (tx) => tx`insert late`));
  await expect(gone).rejects.toMatchObject(unavailable({ code: "CONNECTION_TOO_LATE" }));
  const patient = withCallDeadline(Date.now() + 60_000, () =>
    transaction(sql, async (tx) => tx`insert in_time`),
  );
  release();
  await held;
  await patient;
  expect(statements()).toContain("insert in_time");
  expect(statements()).not.toContain("insert late");
});

test("after its caller's deadline a call sends nothing, though a connection is free", async () => {
  await start();
  await sql`select 1`;
  const late = withCallDeadline(Date.now() + 20, async () => {
    while ((callTimeLeftMs() ?? 0) > 0) await nextTurn();
    await sql`insert late`;
  });
  await expect(late).rejects.toMatchObject(unavailable({ code: "CONNECTION_TOO_LATE" }));
  expect(statements()).not.toContain("insert late");
});

test.each([
  ["whose caller has gone", (caller: AbortController) => caller.abort()],
  ["whose deadline has passed", () => vi.setSystemTime(Date.now() + 60_001)],
])("a transaction %s before its end is rolled back", async (_what, end) => {
  onTestFinished(() => void vi.useRealTimers());
  await start();
  const caller = new AbortController();
  const serve = () =>
    transaction(sql, async (tx) => {
      await tx`insert late`;
      end(caller);
    });
  const late = withCallDeadline(Date.now() + 60_000, serve, caller.signal);
  await expect(late).rejects.toMatchObject(unavailable({ code: "CONNECTION_TOO_LATE" }));
  expect(statements()).toContain("rollback");
  expect(statements()).not.toContain("commit");
});

test("work that a call has woken is not bound by the call's deadline once the call is over", async () => {
  await start();
  const afterDeadline = Promise.withResolvers<void>();
  let woken: Promise<unknown> = Promise.resolve();
  const deadlineMs = Date.now() + 20;
  await withCallDeadline(deadlineMs, async () => {
    woken = afterDeadline.promise.then(() => sql`select woken`.then(() => "ran"));
  });
  while (Date.now() <= deadlineMs) await nextTurn();
  afterDeadline.resolve();
  expect(await woken).toBe("ran");
});

test("a connection is replaced after its lifetime", async () => {
  // A whole number: the difference of two times is exact.
  const nowMs = vi.spyOn(performance, "now").mockReturnValue(1_000);
  onTestFinished(() => nowMs.mockRestore());
  await start(undefined, { lifetimeMs: 60_000 });
  await sql`select 1`;
  nowMs.mockReturnValue(61_000);
  await sql`select 2`;
  await sql`select 3`;
  expect(server.received.find(({ text }) => text === "select 3")?.connection).toBe(1);
  await expect.poll(() => openConnections(sql)).toBe(1);
});

test("an end lets what is under way finish and refuses the rest", async () => {
  let answer = () => {};
  await start(({ text, socket }) => {
    if (!text.includes("slow")) return undefined;
    answer = () => void socket.write(SELECTED);
    return "nothing";
  });
  const slow = sql.unsafe("select slow").then(() => "done");
  await expect.poll(() => statements().includes("select slow")).toBe(true);
  const waiting = sql`select waits`.catch((error: unknown) => error);
  await nextTurn();
  const ended = sql.end({ timeout: 60 });
  await expect(sql`select refused`).rejects.toMatchObject(unavailable({ code: "CONNECTION_ENDED" }));
  expect(await waiting).toMatchObject(unavailable({ code: "CONNECTION_ENDED" }));
  answer();
  expect(await slow).toBe("done");
  await ended;
  await expect.poll(() => server.sockets.size).toBe(0);
});

test("an end that may not wait fails what is under way", async () => {
  await start(({ text }) => (text.includes("slow") ? "nothing" : undefined));
  const slow = sql.unsafe("select slow").catch((error: unknown) => error);
  await expect.poll(() => statements().includes("select slow")).toBe(true);
  await sql.end({ timeout: 0 });
  expect(await slow).toMatchObject({ code: "service_unavailable" });
});

test("a server without TLS is refused when a CA was given", async () => {
  await start();
  const ca = Buffer.from("no certificate is looked at");
  const secured = openPool({
    url: server.url,
    ca,
    maxConnections: 1,
    connectTimeoutMs: 60_000,
    maxWaitMs: 60_000,
    maxWaiting: 1,
    driver: { password: "any" },
  });
  await expect(secured`select 1`).rejects.toMatchObject(unavailable({ code: "CONNECTION_NOT_ENCRYPTED" }));
  await secured.end({ timeout: 0 });
});

test("a service with a CA is connected by TLS only", async () => {
  await start();
  const directory = await mkdtemp(join(tmpdir(), "gatehouse-ca-"));
  await writeFile(join(directory, "ca.crt"), "no certificate is looked at");
  const service = connectPostgres(
    { ...configOf(1), DATABASE_CA_FILE: join(directory, "ca.crt") },
    "test",
    pino({ level: "silent" }),
  );
  await expect(service`select 1`).rejects.toMatchObject(unavailable({ code: "CONNECTION_NOT_ENCRYPTED" }));
  await service.end({ timeout: 0 });
  await rm(directory, { recursive: true });
});

const DENIED = { name: "PostgresError", code: "42501" };

test("errors of the server are unchanged in statements, transactions and sessions", async () => {
  await start(({ text }) => (text.includes("secret") ? "denied" : undefined));
  await expect(sql`select secret`).rejects.toMatchObject(DENIED);
  await expect(sql.unsafe("select secret")).rejects.toMatchObject(DENIED);
  await expect(transaction(sql, (tx) => tx`select secret`.then(() => 1))).rejects.toMatchObject(DENIED);
  await expect(onOneConnection(sql, (session) => session`select secret`.then(() => 1))).rejects.toMatchObject(
    DENIED,
  );
});

/** What a server says (55.8) before it closes the connection of a process that was too slow. */
const FAREWELL = "SFATAL\0VFATAL\0C25P03\0Mterminating connection due to idle-in-transaction timeout\0\0";

test("a transaction that the server has ended for its idleness is unavailable, also if a statement crosses its farewell", async () => {
  await start(({ text, socket }) => {
    if (!text.includes("late")) return undefined;
    const length = Buffer.alloc(4);
    length.writeInt32BE(FAREWELL.length + 4);
    socket.end(Buffer.concat([Buffer.from("E"), length, Buffer.from(FAREWELL)]));
    return "nothing";
  });
  const late = transaction(sql, async (tx) => {
    await tx`select next`;
    await tx`select late`;
  });
  await expect(late).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(transaction(sql, async (tx) => (await tx`select next`).count)).resolves.toBeDefined();
});

test("a service waits half a second longer than the server's statement time-out", async () => {
  await start();
  const silent = pino({ level: "silent" });
  const [usual, upkeep] = [{}, { statement_timeout: 10_000 }].map((session) =>
    connectPostgres(configOf(1), "test", silent, { session }),
  );
  expect([usual?.answerTimeoutMs, upkeep?.answerTimeoutMs]).toEqual([2_500, 10_500]);
});

test.each([
  ["any session", () => Math.floor(Math.random() * 3)],
  ["the only session", () => 0],
  ["two sessions in turn", (statement: number) => statement % 2],
  [
    "two sessions in turn, the other one first",
    (statement: number) => (statement === 0 ? 0 : (statement - 1) % 2),
  ],
])(
  "a pooler that gives each statement %s is refused, though each answer may be as of sessions",
  async (_which, pick) => {
    await start();
    let statements = 0;
    server.sessionOf = () => pick(statements++);
    await expect(assertSessions(sql)).rejects.toThrow(ConfigError);
  },
);

test("sessions are looked at on two connections, which are closed, and their lock is given back", async () => {
  await start();
  await assertSessions(sql);
  await expect.poll(() => server.sockets.size).toBe(0);
  expect(statements()).toContain("select pg_advisory_unlock_all()");
});

test("a fail-over, or a lost connection, while sessions are looked at is unavailable and no refusal", async () => {
  await start();
  server.startOf = (connection) => String(connection);
  await expect(assertSessions(sql)).rejects.toMatchObject({ code: "service_unavailable" });
  server.startOf = () => "1";
  let left = 7;
  server.sessionOf = (connection) => {
    if (--left === 0) cut("end");
    return connection;
  };
  await expect(assertSessions(sql)).rejects.toMatchObject(unavailable(CLOSED));
});

test("a lock that came free with a lost session, while sessions are looked at, is unavailable and no refusal", async () => {
  await start();
  let holder: number | undefined;
  server.sessionOf = (connection) => {
    holder ??= connection;
    if (connection !== holder)
      server.received.find((message) => message.connection === holder)?.socket.destroy();
    return holder;
  };
  await expect(assertSessions(sql)).rejects.toMatchObject({ code: "service_unavailable" });
});

test("a violation of a constraint is known by its name", () => {
  const violation = { code: "23505", constraint_name: "users_email" };
  expect(isUniqueViolation(violation, "users_email")).toBe(true);
  expect(isUniqueViolation(violation, "users_name")).toBe(false);
  expect(isUniqueViolation({ ...violation, code: "23503" }, "users_email")).toBe(false);
  expect(isUniqueViolation(null, "users_email")).toBe(false);
});

test("a violation in a shard of Citus is known by the message", () => {
  const name = "users_email_102038";
  const message = `duplicate key value violates unique constraint "${name}"`;
  const violation = { code: "23505", message };
  expect(isUniqueViolation(violation, "users_email")).toBe(true);
  expect(isUniqueViolation({ ...violation, constraint_name: name }, "users_email")).toBe(true);
  expect(isUniqueViolation(violation, "users")).toBe(false);
  expect(isUniqueViolation(violation, "email")).toBe(false);
  expect(isUniqueViolation({ ...violation, constraint_name: "users_name" }, "users_email")).toBe(false);
});

test("a service's pool is as large as its configuration says, keeps its connections, and lets 100 wait for each", async () => {
  await start();
  const service = connectPostgres(configOf(3), "test", pino({ level: "silent" }));
  const answers = await Promise.allSettled(Array.from({ length: 304 }, () => service`select 1`));
  const refused = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
  expect(refused).toMatchObject([unavailable({ code: "CONNECTION_BUSY" })]);
  expect(openConnections(service)).toBe(3);
  expect(new Set(server.received.map(({ connection }) => connection)).size).toBe(3);
  await service.end({ timeout: 0 });
});

function configOf(poolSize: number) {
  return {
    DATABASE_URL: server.url,
    DATABASE_PASSWORD_FILE: new Secret("any"),
    DATABASE_POOL_SIZE: poolSize,
  };
}
