import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ConfigError } from "../config/config.ts";
import { Lifecycle, oncePassed } from "./lifecycle.ts";

const logged: Record<string, unknown>[] = [];
const logger = pino(
  { base: null, timestamp: false },
  { write: (line) => void logged.push(JSON.parse(line)) },
);
let listeners: { event: string; listener: (...values: unknown[]) => void }[];
let exit: ReturnType<typeof vi.spyOn>;

beforeEach(() => {
  listeners = [];
  logged.length = 0;
  vi.spyOn(process, "on").mockImplementation(((event: string, listener: () => void) => {
    listeners.push({ event, listener });
    return process;
  }) as typeof process.on);
  exit = vi.spyOn(process, "exit").mockImplementation((() => undefined) as unknown as typeof process.exit);
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const start = () => new Lifecycle({ logger, drainDelayMs: 5_000, shutdownTimeoutMs: 3_000 });

/**
 * Pretends that the process has, or has not, an IPC channel to a parent; that depends on how the tests are run. Restores it
 * at once: the test runner's own messages need it.
 */
function startConnected(value: boolean): Lifecycle {
  const own = Object.getOwnPropertyDescriptor(process, "connected");
  Object.defineProperty(process, "connected", { value, configurable: true, writable: true });
  try {
    return start();
  } finally {
    if (own !== undefined) Object.defineProperty(process, "connected", own);
    else Reflect.deleteProperty(process, "connected");
  }
}

const send = (event: string, ...values: unknown[]) => {
  for (const one of listeners.filter((candidate) => candidate.event === event)) one.listener(...values);
};

test("parts stop one after the other, in the reverse order of their start", async () => {
  const lifecycle = start();
  const order: string[] = [];
  for (const name of ["database", "recorder", "server"]) {
    lifecycle.onStop(name, async () => {
      order.push(`${name} stops`);
      await new Promise((resolve) => setTimeout(resolve, 100));
      order.push(`${name} has stopped`);
    });
  }
  send("SIGTERM");
  await vi.advanceTimersByTimeAsync(6_000);
  expect(order).toEqual(
    ["server", "recorder", "database"].flatMap((name) => [`${name} stops`, `${name} has stopped`]),
  );
  expect(exit.mock.calls).toEqual([[0]]);
});

test("a process that drains is unready at once, and goes on serving for the delay", async () => {
  const lifecycle = start();
  const stop = vi.fn();
  lifecycle.onStop("server", stop);
  lifecycle.ready();
  expect([await lifecycle.unreadyReasons(), lifecycle.isDraining]).toEqual([[], false]);
  send("SIGINT");
  expect([await lifecycle.unreadyReasons(), lifecycle.isDraining]).toEqual([["draining"], true]);
  await vi.advanceTimersByTimeAsync(4_999);
  expect(stop).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(stop).toHaveBeenCalledOnce();
});

test("a second signal changes nothing", async () => {
  const lifecycle = start();
  const stop = vi.fn();
  lifecycle.onStop("server", stop);
  send("SIGTERM");
  send("SIGTERM");
  send("SIGINT");
  await vi.advanceTimersByTimeAsync(20_000);
  expect(stop).toHaveBeenCalledOnce();
});

test("a part that fails to stop does not keep the others, and is named in the log", async () => {
  const lifecycle = start();
  const stop = vi.fn();
  lifecycle.onStop("database", stop);
  lifecycle.onStop("server", () => {
    throw new Error("no");
  });
  send("SIGTERM");
  await vi.advanceTimersByTimeAsync(5_000);
  expect(stop).toHaveBeenCalledOnce();
  expect(exit).toHaveBeenLastCalledWith(0);
  expect(logged).toContainEqual(
    expect.objectContaining({ part: "server", err: expect.objectContaining({ message: "no" }) }),
  );
});

test("a stop without a fault logs its reason and no error", async () => {
  const lifecycle = start();
  lifecycle.onStop("server", () => {});
  send("SIGTERM");
  await vi.advanceTimersByTimeAsync(5_000);
  expect(logged).toContainEqual(expect.objectContaining({ reason: "SIGTERM" }));
  expect(logged.filter(({ level }) => level !== 30)).toEqual([]);
});

test("a stop that takes too long ends the process with 1", async () => {
  const lifecycle = start();
  lifecycle.onStop("server", () => new Promise(() => {}));
  send("SIGTERM");
  await vi.advanceTimersByTimeAsync(5_000 + 2_999);
  expect(exit).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(exit.mock.calls).toEqual([[1]]);
});

test.each(["uncaughtException", "unhandledRejection"])("an uncaught error (%s) exits 1", (event) => {
  start();
  send(event, new Error("a defect"));
  expect(exit.mock.calls).toEqual([[1]]);
  expect(logged).toEqual([
    expect.objectContaining({ level: 60, err: expect.objectContaining({ message: "a defect" }) }),
  ]);
});

test("what only another configuration can mend exits 78, and says so in one sentence", () => {
  start();
  send("uncaughtException", new ConfigError("DATABASE_URL: cannot be used"));
  expect(exit.mock.calls).toEqual([[78]]);
  expect(logged).toEqual([{ level: 60, msg: "DATABASE_URL: cannot be used" }]);
});

test("the driver's query for types on a connection that has ended does not end the process", () => {
  start();
  const query = "\n      select b.oid, b.typarray\n      from pg_catalog.pg_type a";
  send("unhandledRejection", Object.assign(new Error("lost"), { code: "CONNECTION_DESTROYED", query }));
  expect(exit).not.toHaveBeenCalled();
  send(
    "unhandledRejection",
    Object.assign(new Error("lost"), { code: "CONNECTION_DESTROYED", query: "select 1" }),
  );
  expect(exit.mock.calls).toEqual([[1]]);
});

test("a stopping part can read the time that is left for all", async () => {
  const lifecycle = start();
  const left: number[] = [];
  lifecycle.onStop("recorder", () => void left.push(lifecycle.remainingStopMs));
  lifecycle.onStop("server", () => new Promise((resolve) => setTimeout(resolve, 1_200)));
  send("SIGTERM");
  await vi.advanceTimersByTimeAsync(5_000 + 1_200);
  expect(left).toEqual([1_800]);
});

test("a process is unready until ready() is called, and names what it waits for", async () => {
  const lifecycle = start();
  expect(await lifecycle.unreadyReasons()).toEqual(["starting"]);
  expect(Object.fromEntries(await lifecycle.readiness())).toEqual({ process: false });
  let isAway = true;
  lifecycle.addReadinessCheck("database", async () => {
    if (isAway) throw new Error("away");
  });
  lifecycle.addReadinessCheck("clock", () => {});
  lifecycle.ready();
  expect(await lifecycle.unreadyReasons()).toEqual(["database"]);
  expect(Object.fromEntries(await lifecycle.readiness())).toEqual({
    process: true,
    database: false,
    clock: true,
  });
  expect(logged).toContainEqual(
    expect.objectContaining({ dependency: "database", err: expect.objectContaining({ message: "away" }) }),
  );
  isAway = false;
  expect(await lifecycle.unreadyReasons()).toEqual([]);
});

test("a readiness check that hangs is a check that fails", async () => {
  const lifecycle = start();
  lifecycle.addReadinessCheck("database", () => new Promise(() => {}));
  lifecycle.ready();
  const reasons = lifecycle.unreadyReasons();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await reasons).toEqual(["database"]);
});

test("a process that began to drain cannot become ready", async () => {
  const lifecycle = start();
  send("SIGTERM");
  lifecycle.ready();
  expect(await lifecycle.unreadyReasons()).toEqual(["draining"]);
});

test("a process without a parent's channel does not wait for one to close", () => {
  startConnected(false);
  expect(listeners.map(({ event }) => event)).not.toContain("disconnect");
});

test("the end of the parent drains the process, as a signal does", async () => {
  const lifecycle = startConnected(true);
  lifecycle.ready();
  send("disconnect");
  expect(await lifecycle.unreadyReasons()).toEqual(["draining"]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(exit.mock.calls).toEqual([[0]]);
});

test("a process stops when its parent has ended", async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  const child = fork(fileURLToPath(new URL("lifecycle.fixture.ts", import.meta.url)), { stdio: "ignore" });
  await new Promise((resolve) => child.once("message", resolve));
  const code = new Promise((resolve) => child.once("exit", resolve));
  child.disconnect();
  expect(await code).toBe(0);
});

test("what was once known holds a replica back no more, though the service behind it goes away", () => {
  let isThere = false;
  const check = oncePassed(() => {
    if (!isThere) throw new Error("away");
  });
  expect(check).toThrow("away");
  isThere = true;
  check();
  isThere = false;
  expect(check).not.toThrow();
});
