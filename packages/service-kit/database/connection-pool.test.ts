import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { type FakePostgres, SELECTED, startFakePostgres } from "#tests/support/database/fake-postgres.ts";
import { withCallDeadline, withTurn } from "../values/call-deadline.ts";
import type { PooledConnection } from "./connection-pool.ts";
import { openConnections, openPool, type PoolOptions, type Sql, transaction, warmUp } from "./postgres.ts";

let server: FakePostgres;
let sql: Sql;
let proxy: Server | undefined;

afterEach(async () => {
  vi.useRealTimers();
  await sql.end({ timeout: 0 });
  server.close();
  proxy?.close();
});

/** A pool, of one connection if nothing else is said, whose clock stands but for `vi.advanceTimersByTimeAsync`. */
async function start(
  options: Partial<PoolOptions> = {},
  answer?: Parameters<typeof startFakePostgres>[0],
): Promise<void> {
  server = await startFakePostgres(answer);
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] });
  sql = openPool({ ...PATIENT, url: server.url, ...options });
}

const PATIENT = {
  maxConnections: 1,
  connectTimeoutMs: 600_000,
  maxWaitMs: 600_000,
  maxWaiting: 10,
  driver: { password: "any" },
};

/** Lets sockets and the driver go on, without any time passing, until a condition is true. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    vi.advanceTimersByTime(0);
    await nextTurn();
  }
}

/** Waits without any time passing. */
async function soon<T>(promise: PromiseLike<T>): Promise<T> {
  const watched = watch(promise);
  await until(() => watched.state !== "waiting");
  return promise;
}

function watch(promise: PromiseLike<unknown>) {
  const watched: { state: "waiting" | "resolved" | "rejected"; error?: unknown } = { state: "waiting" };
  promise.then(
    () => {
      watched.state = "resolved";
    },
    (error: unknown) => {
      Object.assign(watched, { state: "rejected", error });
    },
  );
  return watched;
}

/** Some turns of the event loop, for what must not happen. */
async function turns(): Promise<void> {
  let left = 20;
  await until(() => left-- === 0);
}

/** `answered`, or the code of the failure behind `service_unavailable`. */
function ask(text = "select 1"): Promise<string> {
  return soon(
    sql.unsafe(text).then(
      () => "answered",
      (error: { cause?: { code?: string } }) => error.cause?.code ?? "no code",
    ),
  );
}

/** The connection that brought a statement. */
const connectionOf = (text: string) => server.received.find((message) => message.text === text)?.connection;
const socketOf = (connection: number | undefined) =>
  server.received.find((message) => message.connection === connection)?.socket;

/** Holds a connection until it is let go. */
function hold() {
  const { promise, resolve } = Promise.withResolvers<void>();
  let held: PooledConnection | undefined;
  const over = sql.pool.hold(async (connection) => {
    held = connection;
    await promise;
  });
  over.catch(() => undefined);
  return { over, letGo: resolve, connection: () => held as PooledConnection };
}

/** Until it has a connection that answers. */
async function untilHeld(connection: ReturnType<typeof hold>["connection"]): Promise<void> {
  await until(() => connection() !== undefined);
  await soon(connection().driver`select 1`);
}

const unavailable = (cause: { code: string; message?: string }) => ({ code: "service_unavailable", cause });
const CLOSED = { code: "CONNECTION_CLOSED", message: "the database closed the connection" };
const DEADLINE_PASSED = {
  code: "CONNECTION_TOO_LATE",
  message: "the call's deadline has passed, or its caller has gone",
};
const TOO_LATE = { code: "CONNECTION_TOO_LATE", message: "no database connection became free in time" };

test("a server that refuses connections is retried after 50 ms, doubling to at most a second", async () => {
  let letsIn = false;
  await start({ maxWaiting: 0 }, ({ text, socket }) => {
    if (text !== "start" || letsIn) return undefined;
    socket.destroy();
    return "nothing";
  });
  for (const pauseMs of [50, 100, 200, 400, 800, 1_000, 1_000]) {
    await expect(soon(sql`select 1`)).rejects.toMatchObject(unavailable(CLOSED));
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(await ask()).toBe("CONNECTION_BUSY");
    await vi.advanceTimersByTimeAsync(1);
  }
  letsIn = true;
  expect(await ask()).toBe("answered");
  letsIn = false;
  for (const socket of server.sockets) socket.destroy();
  await until(() => openConnections(sql) === 0);
  expect(await ask()).toBe("CONNECTION_CLOSED"); // after one that was in there is no pause
  await vi.advanceTimersByTimeAsync(49);
  expect(await ask()).toBe("CONNECTION_BUSY");
  await vi.advanceTimersByTimeAsync(1);
  expect(await ask()).toBe("CONNECTION_CLOSED");
});

/** As `start`, with three servers in the URL. */
async function startThree(options: Partial<PoolOptions> = {}): Promise<[FakePostgres, FakePostgres]> {
  const others: [FakePostgres, FakePostgres] = [await startFakePostgres(), await startFakePostgres()];
  await start();
  const hosts = [server, ...others].map(({ port }) => `127.0.0.1:${port}`);
  sql = openPool({ ...PATIENT, ...options, url: `postgres://anybody@${hosts.join()}/any` });
  onTestFinished(() => others.forEach((other) => void other.close()));
  return others;
}

const statements = ({ received }: FakePostgres) =>
  received.map(({ text }) => text).filter((text) => text.startsWith("select "));

test("of several hosts the primary is asked, a standby never, and no caller notices the search", async () => {
  const [second, third] = await startThree();
  server.isStandby = true;
  second.close();
  expect(await ask("select first")).toBe("answered");
  expect([server, second, third].map(statements)).toEqual([[], [], ["select first"]]);
  await soon(transaction(sql, (tx) => tx.unsafe("select second")));
  expect(statements(third)).toEqual(["select first", "select second"]);
  expect(openConnections(sql)).toBe(1);
});

test("after a fail-over the new primary is found, though the old one is back as a standby", async () => {
  const [second, third] = await startThree();
  for (const standby of [second, third]) standby.isStandby = true;
  expect(await ask("select before")).toBe("answered");
  server.isStandby = true;
  third.isStandby = false;
  for (const socket of server.sockets) socket.destroy();
  await until(() => openConnections(sql) === 0);
  expect(await ask("select after")).toBe("answered");
  expect([server, second, third].map(statements)).toEqual([["select before"], [], ["select after"]]);
});

test("while no host is the primary, all are asked once between pauses of 50 ms, doubling to at most a second", async () => {
  const hosts = [...(await startThree({ maxWaiting: 0 })), server];
  for (const host of hosts) host.isStandby = true;
  for (const [round, pauseMs] of [50, 100, 200, 400, 800, 1_000, 1_000].entries()) {
    expect(await ask()).toBe("CONNECTION_STANDBY");
    const starts = hosts.map(({ received }) => received.filter(({ text }) => text === "start").length);
    expect(starts).toEqual([round + 1, round + 1, round + 1]);
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(await ask()).toBe("CONNECTION_BUSY");
    await vi.advanceTimersByTimeAsync(1);
  }
  for (const host of hosts) host.isStandby = false;
  expect(await ask("select found")).toBe("answered");
});

test("a caller past its deadline sends nothing, though the primary was found for it", async () => {
  const [second] = await startThree();
  server.isStandby = true;
  const asked = await withCallDeadline(Date.now() + 1_000, async () => {
    const asking = ask("select late");
    await until(() => second.received.length > 0);
    vi.setSystemTime(Date.now() + 1_000);
    await vi.advanceTimersByTimeAsync(1_000);
    return asking;
  });
  expect(asked).toBe("CONNECTION_TOO_LATE");
  expect(statements(second)).toEqual([]);
  expect(await ask("select next")).toBe("answered");
});

test("the only host may be a standby", async () => {
  await start();
  server.isStandby = true;
  expect(await ask()).toBe("answered");
});

test("callers that wait during the pause are served after it, in order", async () => {
  let starts = 0;
  await start({}, ({ text, socket }) => {
    if (text !== "start" || ++starts > 1) return undefined;
    socket.destroy();
    return "nothing";
  });
  expect(await ask()).toBe("CONNECTION_CLOSED");
  const early = watch(sql.unsafe("select early"));
  await turns();
  await vi.advanceTimersByTimeAsync(50); // the pause is over, its end not yet noticed
  const late = watch(sql.unsafe("select late"));
  await turns();
  await vi.advanceTimersByTimeAsync(1); // now it is
  await vi.advanceTimersByTimeAsync(1); // the driver connects in a timer of no time
  await until(() => early.state === "resolved" && late.state === "resolved");
  const order = server.received.map(({ text }) => text).filter((text) => /early|late/.test(text));
  expect(order).toEqual(["select early", "select late"]);
});

test("a caller that waits when a connection is lost gets the next one", async () => {
  await start();
  const { over, connection } = hold();
  const waiting = watch(sql.unsafe("select waits"));
  await untilHeld(connection);
  for (const socket of server.sockets) socket.destroy();
  await until(() => waiting.state !== "waiting");
  expect([waiting.state, connectionOf("select waits")]).toEqual(["resolved", 1]);
  expect(watch(over).state).toBe("waiting");
});

test.each([
  ["end", CLOSED],
  ["reset", { code: "ECONNRESET" }],
])("a connection says how it was lost: %s", async (how, expected) => {
  await start();
  const { connection, letGo, over } = hold();
  await untilHeld(connection);
  for (const socket of server.sockets) how === "end" ? socket.destroy() : socket.resetAndDestroy();
  await until(() => connection().lost !== undefined);
  expect(connection().lost).toMatchObject(expected);
  letGo();
  await soon(over);
  expect(await ask("select next")).toBe("answered");
  expect(connectionOf("select next")).toBe(1);
});

test("a lost connection affects no other, and one lost while idle is not used again", async () => {
  await start({ maxConnections: 2, maxWaiting: 0 });
  const [first, second] = [hold(), hold()];
  for (const { connection } of [first, second]) await untilHeld(connection);
  second.letGo();
  await soon(second.over);
  socketOf(connectionOf("start"))?.destroy();
  await until(() => openConnections(sql) === 1);
  expect([await ask("select more"), connectionOf("select more")]).toEqual(["answered", 1]);
  expect(openConnections(sql)).toBe(1);
  first.letGo();
  socketOf(1)?.destroy();
  await until(() => openConnections(sql) === 0);
  expect([await ask("select again"), connectionOf("select again")]).toEqual(["answered", 2]);
});

test("the idle time-out of a connection that was lost while idle closes no other", async () => {
  await start({ maxConnections: 2, idleTimeoutMs: 1_000 });
  const [first, second] = [hold(), hold()];
  for (const { connection } of [first, second]) await untilHeld(connection);
  first.letGo();
  await soon(first.over);
  await vi.advanceTimersByTimeAsync(500);
  second.letGo();
  await soon(second.over);
  socketOf(0)?.destroy();
  await until(() => openConnections(sql) === 1);
  await vi.advanceTimersByTimeAsync(500);
  expect([await ask("select still"), connectionOf("select still")]).toEqual(["answered", 1]);
});

test("a failed attempt to connect leaves no connection behind; the next attempt opens a new one", async () => {
  await start({ ca: Buffer.from("never looked at") });
  const asked = watch(sql`select 1`);
  await until(() => server.sockets.size === 1);
  for (const socket of server.sockets) socket.destroy(); // it was asked for TLS
  await until(() => asked.state === "rejected");
  expect(openConnections(sql)).toBe(0);
  await vi.advanceTimersByTimeAsync(50);
  watch(sql`select 2`);
  await until(() => server.sockets.size === 1);
});

test("a connection goes back when the work with it fails", async () => {
  await start({ maxWaiting: 0 });
  await expect(soon(sql.pool.hold(() => Promise.reject(new Error("its own"))))).rejects.toThrow("its own");
  expect(await ask()).toBe("answered");
});

test("a caller waits as long as the pool allows, and never past its call's deadline", async () => {
  await start({ maxWaitMs: 1_000 });
  hold();
  const waiting = [
    watch(sql`select 1`),
    watch(withCallDeadline(Date.now() + 100, async () => sql`select 2`)),
    watch(withCallDeadline(Date.now() + 5_000, async () => sql`select 3`)),
  ];
  const states = () => waiting.map(({ state }) => state);
  await turns();
  await vi.advanceTimersByTimeAsync(99);
  expect(states()).toEqual(["waiting", "waiting", "waiting"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(states()).toEqual(["waiting", "rejected", "waiting"]);
  await vi.advanceTimersByTimeAsync(899);
  expect(states()).toEqual(["waiting", "rejected", "waiting"]);
  await vi.advanceTimersByTimeAsync(1);
  expect(waiting).toMatchObject(waiting.map(() => ({ state: "rejected", error: unavailable(TOO_LATE) })));
  expect(sql.pool.waitingCount).toBe(0);
});

test("a connection freed at the moment of a wait's time-out is not used for that caller", async () => {
  await start({ maxWaitMs: 1_000 });
  const { letGo } = hold();
  setTimeout(letGo, 1_000); // before the wait's own timer
  const late = watch(sql`insert late`);
  await turns();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(late).toMatchObject({ state: "rejected", error: unavailable(TOO_LATE) });
  expect(await ask()).toBe("answered");
  expect(connectionOf("insert late")).toBeUndefined();
});

test.each([
  ["in the moment of", 0],
  ["after", 1],
])("%s its deadline a call gets no connection any more, though one is free", async (_when, lateMs) => {
  await start();
  await ask();
  const late = withCallDeadline(Date.now() - lateMs, async () => sql`insert late`);
  await expect(soon(late)).rejects.toMatchObject(unavailable(DEADLINE_PASSED));
});

test("a caller beyond the queue's limit fails as busy", async () => {
  await start({ maxWaiting: 1 });
  hold();
  watch(sql`select waits`);
  await turns();
  const busy = { code: "CONNECTION_BUSY", message: "too many callers wait for a connection" };
  await expect(soon(sql`select surplus`)).rejects.toMatchObject(unavailable(busy));
});

test("a statement that is not answered in time fails; its connection is not used before it is answered", async () => {
  let answer = () => {};
  await start({ answerTimeoutMs: 1_000 }, ({ text, socket }) => {
    if (text !== "select slow") return undefined;
    answer = () => void socket.write(SELECTED);
    return "nothing";
  });
  const slow = watch(sql.unsafe("select slow"));
  await until(() => connectionOf("select slow") !== undefined);
  await vi.advanceTimersByTimeAsync(999);
  expect(slow.state).toBe("waiting");
  await vi.advanceTimersByTimeAsync(1);
  expect(slow).toMatchObject({
    state: "rejected",
    error: { code: "service_unavailable", retryAfterMs: 1_000 },
  });
  const next = watch(sql.unsafe("select next"));
  await turns();
  expect([sql.pool.waitingCount, connectionOf("select next")]).toEqual([1, undefined]);
  answer();
  await until(() => next.state === "resolved");
});

test("a transaction that has not ended in time fails, and its work goes on", async () => {
  await start({ answerTimeoutMs: 1_000 });
  const goOn = Promise.withResolvers<void>();
  const work = watch(
    transaction(sql, async (tx) => {
      await goOn.promise;
      await tx.unsafe("select late");
    }),
  );
  await until(() => connectionOf("begin ") !== undefined);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(work).toMatchObject({ state: "rejected", error: { code: "service_unavailable" } });
  goOn.resolve();
  await until(() => connectionOf("commit") !== undefined);
});

test("a connection is replaced once it has its age, not before", async () => {
  await start({ lifetimeMs: 1_000 });
  await ask("select 1");
  await vi.advanceTimersByTimeAsync(999);
  await ask("select 2");
  await vi.advanceTimersByTimeAsync(1);
  await ask("select 3");
  await until(() => openConnections(sql) === 0);
  await ask("select 4");
  const used = [1, 2, 3, 4].map((index) => connectionOf(`select ${index}`));
  expect(used).toEqual([0, 0, 0, 1]);
});

test("an idle connection is closed after the time-out; one that is used again is not", async () => {
  await start({ maxConnections: 2, idleTimeoutMs: 1_000 });
  const held = [hold(), hold()];
  for (const { letGo, over } of held) {
    letGo();
    await soon(over);
  }
  await ask("select first");
  await vi.advanceTimersByTimeAsync(999);
  expect(openConnections(sql)).toBe(2);
  await ask("select again");
  await vi.advanceTimersByTimeAsync(1);
  await until(() => openConnections(sql) === 1);
  await ask("select still");
  expect(connectionOf("select still")).toBe(connectionOf("select first"));
  await vi.advanceTimersByTimeAsync(999);
  await turns();
  expect(openConnections(sql)).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  await until(() => openConnections(sql) === 0);
  expect(await ask()).toBe("answered");
});

test("an idle connection that is being closed is not used again", async () => {
  await start({ idleTimeoutMs: 1_000 });
  await ask("select first");
  vi.advanceTimersByTime(1_000);
  expect(await ask("select next")).toBe("answered");
  expect(connectionOf("select next")).toBe(1);
});

test("without such a time connections stay open", async () => {
  await start();
  await ask("select 1");
  await vi.advanceTimersByTimeAsync(86_400_000);
  await ask("select 2");
  expect(connectionOf("select 2")).toBe(0);
});

test("a server that sends nothing at the start of a session is abandoned in time", async () => {
  await start({ connectTimeoutMs: 1_000 }, ({ text }) => (text === "start" ? "nothing" : undefined));
  const asked = watch(sql`select 1`);
  await until(() => server.received.length > 0);
  await vi.advanceTimersByTimeAsync(999);
  expect(asked.state).toBe("waiting");
  await vi.advanceTimersByTimeAsync(1);
  await until(() => asked.state !== "waiting");
  expect(asked.error).toMatchObject(unavailable({ code: "CONNECT_TIMEOUT" }));
});

test("end() returns at once without running work, otherwise when the last work is done", async () => {
  await start({ maxConnections: 2 });
  const [first, second] = [hold(), hold()];
  for (const { connection } of [first, second]) await untilHeld(connection);
  const waiting = watch(sql`select waits`);
  await turns();
  const ended = watch(sql.end({ timeout: 600 }));
  const closing = { code: "CONNECTION_ENDED", message: "the pool is closing" };
  await until(() => waiting.state === "rejected");
  expect(waiting.error).toMatchObject(unavailable(closing));
  await expect(soon(sql`select refused`)).rejects.toMatchObject(unavailable(closing));
  first.letGo();
  await until(() => openConnections(sql) === 1);
  await turns();
  expect(ended.state).toBe("waiting");
  await soon(second.connection().driver`select last`);
  second.letGo();
  await until(() => ended.state === "resolved");
  await soon(sql.end({ timeout: 600 }));
});

test("end() closes idle connections without waiting for its time-out", async () => {
  await start();
  await ask();
  await soon(sql.end({ timeout: 600 }));
  expect(server.received.at(-1)?.text).toBe("terminate");
});

test("after its time-out, end() fails running work as abandoned", async () => {
  await start();
  const begun = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  let failure: unknown;
  const work = watch(
    transaction(sql, async (tx) => {
      await tx`select first`;
      begun.resolve();
      await goOn.promise;
      await tx`select second`.catch((error: unknown) => {
        failure = error;
      });
    }),
  );
  await soon(begun.promise);
  await soon(sql.end({ timeout: 0 }));
  goOn.resolve();
  await until(() => failure !== undefined && work.state === "rejected");
  expect(failure).toMatchObject({ code: "CONNECTION_ENDED", message: "the connection was abandoned" });
  expect(connectionOf("select second")).toBeUndefined();
});

test("end() abandons a connection that is still being opened", async () => {
  await start({ ca: Buffer.from("never looked at") }, () => "nothing");
  const asked = watch(sql`select 1`);
  await until(() => server.received.length > 0); // it has been asked for TLS, and says nothing
  await soon(sql.end({ timeout: 0 }));
  await until(() => server.sockets.size === 0 && asked.state === "rejected");
});

test.for([
  { what: "an IPv6 address", host: "::1", wantedPort: 0, authorityOf: (port: number) => `[::1]:${port}` },
  { what: "no port: 5432", host: "127.0.0.78", wantedPort: 5_432, authorityOf: () => "127.0.0.78" },
])("a URL may have $what", async ({ host, wantedPort, authorityOf }, { skip }) => {
  server = await startFakePostgres();
  const passing = createServer((inward) => {
    const outward = connect(server.port, "127.0.0.1");
    for (const socket of [inward, outward]) socket.on("error", () => undefined);
    inward.pipe(outward).pipe(inward);
  });
  proxy = passing;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  passing.once("listening", () => resolve(true)).once("error", () => resolve(false));
  passing.listen(wantedPort, host);
  const isListening = await promise;
  const { port } = isListening ? (passing.address() as AddressInfo) : { port: 1 };
  sql = openPool({
    url: `postgres://anybody@${authorityOf(port)}/any`,
    maxConnections: 1,
    connectTimeoutMs: 10_000,
    maxWaitMs: 10_000,
    maxWaiting: 1,
    driver: { password: "any" },
  });
  skip(!isListening, "this machine has no such address, or something else listens there");
  await expect(sql`select 1`.then(() => "answered")).resolves.toBe("answered");
});

test("the calls of one user hold one connection, however many they are; a stranger finds another", async () => {
  await start({ maxConnections: 3 });
  const held = Promise.withResolvers<void>();
  const ofUser = (work: () => Promise<unknown>) => withTurn("ada", () => sql.pool.hold(work));
  const first = ofUser(() => held.promise);
  const others = Array.from({ length: 100 }, () => watch(ofUser(async () => undefined)));
  await expect(soon(ofUser(async () => undefined))).rejects.toMatchObject({
    code: "service_unavailable",
    retryAfterMs: 1_000,
  });
  expect(sql.pool.openCount).toBe(1);
  expect(await ask()).toBe("answered");
  expect(sql.pool.openCount).toBe(2);
  held.resolve();
  await soon(first);
  await until(() => others.every(({ state }) => state === "resolved"));
});

test("what a user's call does beside the connection that it holds does not wait for it", async () => {
  await start({ maxConnections: 2 });
  const both = withTurn("ada", () => sql.pool.hold(() => ask()));
  expect(await soon(both)).toBe("answered");
});

test("a user's call waits for its turn no longer than the pool allows", async () => {
  await start({ maxConnections: 2, maxWaitMs: 500 });
  watch(withTurn("ada", () => sql.pool.hold(() => new Promise(() => undefined))));
  const late = watch(withTurn("ada", () => sql.pool.hold(async () => undefined)));
  await vi.advanceTimersByTimeAsync(499);
  expect(late.state).toBe("waiting");
  await vi.advanceTimersByTimeAsync(1);
  expect(late).toMatchObject({ state: "rejected", error: { code: "service_unavailable" } });
});

test("what is warmed up is open before the first call", async () => {
  await start({ maxConnections: 3 });
  await soon(warmUp(sql));
  expect(openConnections(sql)).toBe(2);
});

test("a connection whose driver has not learnt the types is given up before any work: arrays would be text", async () => {
  await start();
  server.knowsTypes = false;
  await expect(soon(sql`select early`)).rejects.toMatchObject(
    unavailable({ code: "CONNECTION_CLOSED", message: "the driver has not learnt the types" }),
  );
  server.knowsTypes = true;
  await vi.advanceTimersByTimeAsync(51);
  expect([await ask("select next"), connectionOf("select next")]).toEqual(["answered", 1]);
  expect(server.received.map(({ text }) => text)).not.toContain("select early");
});
