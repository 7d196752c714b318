import { EventEmitter } from "node:events";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type {
  PartState,
  TokenServiceClient,
  WatchRevocationsRequest,
  WatchRevocationsResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import { RevocationSet } from "./revocation-set.ts";
import { RevocationWatch, type RevocationWatchOptions } from "./revocation-watch.ts";

const START = new Date("2026-01-01T00:00:00Z");
const KEY_ID = "k".repeat(43);
/** In slot 0x5a3. */
const SESSION = "0190a5c3-7b7e-7c4f-9a58-0123456785a3";
const CLIENT = undefined;
let watches: RevocationWatch[];

beforeEach(() => {
  watches = [];
  vi.useFakeTimers({ toFake: ["Date", "performance", "setTimeout", "clearTimeout"], now: START });
  vi.advanceTimersByTime(10_000); // the process has been running for a while: no clock is at zero
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterEach(() => {
  for (const watch of watches) watch.close();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A watch of a token-service whose messages the test sends. */
function open(options: Partial<RevocationWatchOptions> = {}) {
  const streams: EventEmitter[] = [];
  const requests: WatchRevocationsRequest[] = [];
  const cancelled: EventEmitter[] = [];
  let openedAtMs = 0;
  const client = {
    watchRevocations(request: WatchRevocationsRequest) {
      requests.push(request);
      openedAtMs = performance.now();
      const stream: EventEmitter = Object.assign(new EventEmitter(), {
        cancel: () => void cancelled.push(stream),
      });
      streams.push(stream);
      return stream;
    },
  } as unknown as TokenServiceClient;
  const revoked = new RevocationSet(100);
  const watch = new RevocationWatch({ client, revoked, logger: pino({ level: "silent" }), ...options });
  watches.push(watch);
  const send = (message: Partial<WatchRevocationsResponse> = {}, stream = streams.at(-1)) =>
    stream?.emit("data", {
      revocations: [],
      sequence: 0,
      tip: "",
      caughtUp: true,
      elapsedMs: performance.now() - openedAtMs,
      readAt: new Date(),
      keepS: 910,
      rules: undefined,
      part: undefined,
      ...message,
    } satisfies WatchRevocationsResponse);
  return { watch, revoked, send, streams, requests, cancelled };
}

const rules = (...keyIds: string[]) => ({
  issuer: "https://auth.example",
  keys: keyIds.map((keyId) => ({ keyId, algorithm: "EdDSA", publicKey: Buffer.alloc(0) })),
});
const ended = (sessionId: string, sequence = 1) => ({
  sequence,
  target: { $case: "sessionId" as const, value: sessionId },
  expiresAt: new Date(Date.now() + 910_000),
});

test("a part of the backlog does not make the view complete, nor fresh again", () => {
  const { watch, send } = open();
  send({ caughtUp: false });
  expect(watch.isFreshFor(SESSION)).toBe(false);
  send();
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.advanceTimersByTime(1_900);
  send({ caughtUp: false });
  vi.advanceTimersByTime(1_200);
  expect(watch.isFreshFor(SESSION)).toBe(false);
});

/** A message of a part, at the moment it is sent. */
function ofPart(number: number, slots: number[] | undefined, changes: Partial<PartState> = {}) {
  const bits = Buffer.alloc(slots === undefined ? 0 : 512);
  for (const slot of slots ?? []) bits[slot >>> 3] = (bits[slot >>> 3] ?? 0) | (0x80 >>> (slot & 7));
  const elapsedMs = performance.now() - 10_000;
  const part = { number, caughtUp: true, elapsedMs, readAt: new Date(), slots: bits, ...changes };
  // What a verifier that does not know of parts goes by.
  return { caughtUp: false, elapsedMs: 0, part };
}

test("a silent part's users are not known, those of others and clients are; without the first part nobody is", () => {
  const { watch, send, cancelled } = open();
  const other = SESSION.replace(/5a3$/, "5a4");
  const fresh = () => [watch.isFreshFor(SESSION), watch.isFreshFor(other), watch.isFreshFor(CLIENT)];
  send(ofPart(0, [0x5a4]));
  expect(fresh()).toEqual([false, true, true]);
  send(ofPart(7, [0x5a3], { caughtUp: false }));
  expect(fresh()).toEqual([false, true, true]);
  send(ofPart(7, undefined));
  expect(fresh()).toEqual([true, true, true]);
  for (let second = 0; second < 4; second += 1) {
    vi.advanceTimersByTime(1_000);
    send(ofPart(0, undefined));
  }
  expect(fresh()).toEqual([false, true, true]);
  for (let second = 0; second < 4; second += 1) {
    vi.advanceTimersByTime(1_000);
    send(ofPart(7, undefined));
  }
  expect(fresh()).toEqual([false, false, false]);
  expect(cancelled).toEqual([]);
});

test("a slot is where a part that is known has it; without parts all are in one", () => {
  const { watch, send } = open();
  send(ofPart(0, [0x5a3]));
  send(ofPart(7, []));
  expect(watch.isFreshFor(SESSION)).toBe(true);
  send(ofPart(0, []));
  expect(watch.isFreshFor(SESSION)).toBe(false);
  // What ended before it came may be in the backlog.
  send(ofPart(7, [0x5a3], { caughtUp: false }));
  expect(watch.isFreshFor(SESSION)).toBe(false);
  send(ofPart(7, undefined));
  expect(watch.isFreshFor(SESSION)).toBe(true);
  send(ofPart(0, undefined));
  expect(watch.isFreshFor(SESSION)).toBe(true);
  send(ofPart(7, []));
  expect(watch.isFreshFor(SESSION)).toBe(false);
  send();
  expect(watch.isFreshFor(SESSION)).toBe(true);
});

test("three seconds count from the read of the log, not from the message's arrival", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(800);
  send({ elapsedMs: 0 });
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.advanceTimersByTime(2_200);
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.advanceTimersByTime(1);
  expect(watch.isFreshFor(SESSION)).toBe(false);
});

test.each([
  ["that was under way for long", 0, 500],
  ["of a later read than can be: this machine was suspended", 3_600, 0],
])("after a message %s the stream is reopened; its revocations count", (_what, elapsedMs, freshForMs) => {
  const { watch, revoked, send, requests } = open();
  vi.advanceTimersByTime(1_000);
  send({ caughtUp: false });
  vi.advanceTimersByTime(1_500);
  send({ elapsedMs, revocations: [ended("s")], sequence: 1, tip: "mark" });
  expect(watch.isFreshFor(SESSION)).toBe(freshForMs > 0);
  expect(revoked.hasSession("s")).toBe(true);
  vi.advanceTimersByTime(100);
  expect(requests).toEqual([
    { afterSequence: 0, tip: "" },
    { afterSequence: 1, tip: "mark" },
  ]);
  vi.advanceTimersByTime(Math.max(0, freshForMs - 99));
  expect(watch.isFreshFor(SESSION)).toBe(false);
});

test("a message of an older read changes nothing", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(1_000);
  send();
  send({ elapsedMs: 0 });
  vi.advanceTimersByTime(2_900);
  expect(watch.isFreshFor(SESSION)).toBe(true);
});

test("a message that does not say when its read began counts from the stream's opening, and has no time of the server", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(1_900);
  send({ elapsedMs: 0, readAt: undefined, keepS: 0 });
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.advanceTimersByTime(1_200);
  expect(watch.isFreshFor(SESSION)).toBe(false);
  expect(watch.serverNowMs).toBeUndefined();
});

test("a wall clock that jumps ahead ends the trust until the next message; one that falls back does nothing", () => {
  const { watch, send } = open();
  send();
  const now = Date.now();
  vi.setSystemTime(now + 1_200_000);
  expect(watch.isFreshFor(SESSION)).toBe(false);
  send();
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.setSystemTime(now);
  expect(watch.isFreshFor(SESSION)).toBe(true);
});

test.each([1_200_000, -1_200_000])("a wall clock that steps by %i ms and back forgets nothing", (step) => {
  const { revoked, send } = open();
  send({ revocations: [ended("s")], sequence: 1 });
  vi.setSystemTime(new Date(Date.now() + step));
  send({ sequence: 1 });
  vi.setSystemTime(new Date(Date.now() - step));
  for (let seconds = 0; seconds < 909; seconds += 1) {
    vi.advanceTimersByTime(1_000);
    send({ sequence: 1 });
  }
  expect(revoked.hasSession("s")).toBe(true);
  for (let seconds = 0; seconds < 5; seconds += 1) {
    vi.advanceTimersByTime(1_000);
    send({ sequence: 1 });
  }
  expect(revoked.hasSession("s")).toBe(false);
});

test("an end that a wrong clock takes for long past is kept for the whole time", () => {
  const { revoked, send } = open();
  send({ revocations: [{ ...ended("s"), expiresAt: new Date(0) }], sequence: 1 });
  vi.advanceTimersByTime(909_000);
  send({ sequence: 1 });
  expect(revoked.hasSession("s")).toBe(true);
});

test("a revocation without an end is kept for the longest token life", () => {
  const { revoked, send } = open();
  send({ revocations: [{ ...ended("s"), expiresAt: new Date(0) }], sequence: 1, keepS: 0 });
  vi.advanceTimersByTime(3_609_000);
  send({ sequence: 1 });
  expect(revoked.hasSession("s")).toBe(true);
});

test("the shortest life of a revocation that was heard counts, whatever is said later", () => {
  const { watch, send } = open();
  expect(watch.leastKeptMs).toBe(3_610_000);
  for (const keepS of [910, 70, 910, 0]) send({ keepS });
  expect(watch.leastKeptMs).toBe(70_000);
});

test("a ban and a change of the keys are reported once each", () => {
  const banned: string[] = [];
  const keySets: string[][] = [];
  const { send } = open({
    onKeyBanned: (keyId) => banned.push(keyId),
    onKeys: (keyIds) => keySets.push([...keyIds]),
  });
  send({ rules: rules("a", "b") });
  send();
  send({ rules: rules("b", "a") });
  send({
    revocations: [{ ...ended(""), target: { $case: "keyId", value: KEY_ID } }],
    rules: rules("b", "c"),
  });
  expect(banned).toEqual([KEY_ID]);
  expect(keySets).toEqual([
    ["a", "b"],
    ["b", "c"],
  ]);
});

test("rules hold for the stream that sent them, and only while it is fresh", () => {
  const { watch, send, streams } = open();
  send({ rules: rules(KEY_ID) });
  send();
  expect(watch.rules?.keys.has(KEY_ID)).toBe(true);
  streams.at(-1)?.emit("end");
  vi.advanceTimersByTime(100);
  send({});
  expect(watch.rules).toBeUndefined();
});

test("a stream is silent two seconds after its last message, whatever that said, and after the start", () => {
  const { watch, send } = open();
  for (let messages = 0; messages < 2; messages += 1) {
    vi.advanceTimersByTime(2_000);
    expect(watch.isSilent).toBe(false);
    vi.advanceTimersByTime(60);
    expect(watch.isSilent).toBe(true);
    send({ caughtUp: false });
    expect(watch.isSilent).toBe(false);
  }
});

test("readAgain() resolves after a read that began later, or reports that there was none", async () => {
  const { watch, send } = open();
  send();
  vi.advanceTimersByTime(300);
  const waiting = watch.readAgain(1_500);
  let isRead: boolean | undefined;
  void waiting.then((value) => {
    isRead = value;
  });
  send({ elapsedMs: 200 });
  await vi.advanceTimersByTimeAsync(1);
  expect(isRead).toBeUndefined();
  send();
  expect(await waiting).toBe(true);
  const inVain = watch.readAgain(1_500);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(await inVain).toBe(false);
});

test("revocations, rules and the server's time are trusted for three seconds", () => {
  const { watch, send } = open();
  expect([watch.isFreshFor(SESSION), watch.rules, watch.serverNowMs]).toEqual([false, undefined, undefined]);
  send({ rules: rules(KEY_ID), readAt: new Date(5_000_000) });
  vi.advanceTimersByTime(3_000);
  expect(watch.serverNowMs).toBe(5_003_000);
  expect(watch.rules?.issuer).toBe("https://auth.example");
  vi.advanceTimersByTime(1);
  expect([watch.isFreshFor(SESSION), watch.rules, watch.serverNowMs]).toEqual([false, undefined, undefined]);
});

test("a wall clock may run ahead by two seconds more than the three", () => {
  const { watch, send } = open();
  send();
  vi.setSystemTime(Date.now() + 5_000);
  expect(watch.isFreshFor(SESSION)).toBe(true);
  vi.setSystemTime(Date.now() + 1);
  expect(watch.isFreshFor(SESSION)).toBe(false);
});

test("a message that is a second ahead of this clock is accepted, with a read time of now", () => {
  const { watch, send, requests } = open();
  vi.advanceTimersByTime(500);
  send({ elapsedMs: 1_500 });
  expect([watch.isFreshFor(SESSION), watch.lagMs]).toEqual([true, 0]);
  vi.advanceTimersByTime(100);
  expect(requests).toHaveLength(1);
});

test("a message that was under way for two seconds does not end its stream", () => {
  const { watch, send, requests } = open();
  vi.advanceTimersByTime(1_000);
  send({ caughtUp: false });
  vi.advanceTimersByTime(1_000);
  send({ elapsedMs: 0 });
  expect(watch.lagMs).toBe(2_000);
  vi.advanceTimersByTime(100);
  expect(requests).toHaveLength(1);
});

test("a stream with a message every 1.5 s is kept; after two seconds of silence it is reopened", () => {
  const { send, requests, streams, cancelled } = open();
  for (let messages = 0; messages < 3; messages += 1) {
    vi.advanceTimersByTime(1_500);
    send();
  }
  vi.advanceTimersByTime(1_999);
  expect(cancelled).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(cancelled).toEqual([streams[0]]);
  vi.advanceTimersByTime(50);
  expect(requests).toHaveLength(2);
  vi.advanceTimersByTime(2_000);
  expect(cancelled).toEqual(streams);
});

/** The pause between the end of the last stream and the next. */
function pauseMs({ streams, requests }: ReturnType<typeof open>): number {
  const before = requests.length;
  streams.at(-1)?.emit("end");
  const endedMs = performance.now();
  while (requests.length === before) vi.advanceTimersToNextTimer();
  return Math.round(performance.now() - endedMs);
}

test("each failure in a row doubles the pause, to a second; a message ends the row", () => {
  const opened = open();
  expect(Array.from({ length: 7 }, () => pauseMs(opened))).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  opened.send();
  expect(pauseMs(opened)).toBe(50);
});

test.each([
  [0, 40],
  [1, 60],
])(
  "replicas reconnect with jitter: with the random number %i the first pause is %i ms",
  (random, expected) => {
    vi.spyOn(Math, "random").mockReturnValue(random);
    expect(pauseMs(open())).toBe(expected);
  },
);

test("a broken stream is replaced once, and its later messages are ignored", () => {
  const { watch, revoked, send, requests, streams } = open();
  const [broken] = streams;
  broken?.emit("error", new Error("broken"));
  broken?.emit("end");
  vi.advanceTimersByTime(50);
  expect(requests).toHaveLength(2);
  send({ revocations: [ended("s")], sequence: 9 }, broken);
  expect([watch.isFreshFor(SESSION), revoked.hasSession("s")]).toEqual([false, false]);
  vi.advanceTimersByTime(200);
  expect(requests).toHaveLength(2);
  streams.at(-1)?.emit("end");
  vi.advanceTimersByTime(100);
  expect(requests.at(-1)).toEqual({ afterSequence: 0, tip: "" });
});

test("a closed watch opens, schedules and reports nothing", () => {
  const said = vi.fn();
  const logger = { debug: said, warn: said } as unknown as Logger;
  const { watch, requests, streams, cancelled } = open({ logger });
  watch.close();
  expect(cancelled).toEqual(streams);
  expect(vi.getTimerCount()).toBe(0);
  streams[0]?.emit("error", new Error("cancelled"));
  expect(vi.getTimerCount()).toBe(0);
  expect(requests).toHaveLength(1);
  expect(said).not.toHaveBeenCalled();
});

test("a watch that is closed between two streams opens no other, and leaves no timer behind", () => {
  const { watch, streams, requests } = open();
  streams[0]?.emit("end");
  watch.close();
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(5_000);
  expect(requests).toHaveLength(1);
});

test("a break is logged once, even if the broken stream fails again", () => {
  const warn = vi.fn();
  const { streams } = open({ logger: { warn } as unknown as Logger });
  streams[0]?.emit("error", new Error("broken"));
  expect(warn).toHaveBeenCalledTimes(1);
  streams[0]?.emit("error", new Error("cancelled"));
  expect(warn).toHaveBeenCalledTimes(1);
});

test("what is new in a break is a warning, and says what to do if token-service refuses the service", () => {
  const said: string[] = [];
  const log = (level: string) => (_facts: object, text: string) => said.push(`${level} ${text}`);
  const logger = { debug: log("debug"), warn: log("warn") } as unknown as Logger;
  const { streams, send } = open({ logger });
  const breakBy = (code: ErrorCode) => {
    streams.at(-1)?.emit("error", toRpcError(new DomainError(code)));
    vi.advanceTimersByTime(2_000);
  };
  breakBy("service_unavailable");
  breakBy("service_unavailable");
  breakBy("caller_not_allowed");
  breakBy("caller_not_allowed");
  send();
  breakBy("caller_not_allowed");
  const refused = "warn token-service refuses this service: add its name to VERIFIERS";
  const again = "debug the revocation stream broke again";
  expect(said).toEqual(["warn the revocation stream broke", again, refused, again, refused]);
});

test("the time of token-service goes on in silence, unless the clock of this machine is later", () => {
  const { watch, send } = open();
  expect(watch.nowMs).toBe(Date.now());
  const aheadMs = 3_600_000;
  send({ readAt: new Date(Date.now() + aheadMs) });
  vi.setSystemTime(Date.now() - aheadMs);
  vi.advanceTimersByTime(10_000);
  expect([watch.serverNowMs, watch.nowMs]).toEqual([undefined, Date.now() + 2 * aheadMs]);
  vi.setSystemTime(Date.now() + 4 * aheadMs);
  expect(watch.nowMs).toBe(Date.now());
  send({ readAt: new Date(1_000_000) });
  expect(watch.nowMs).toBe(1_000_000);
});

test("an unknown kind of revocation ends the trust permanently, and is logged once", () => {
  const error = vi.fn();
  const { watch, revoked, send } = open({ logger: { error } as unknown as Logger });
  send();
  const unknown = { sequence: 1, target: undefined, expiresAt: undefined };
  send({ revocations: [unknown, ended("s", 2)], sequence: 2 });
  expect(error).toHaveBeenCalledTimes(1);
  send({ revocations: [{ ...unknown, sequence: 3 }], sequence: 3 });
  expect([watch.isFreshFor(SESSION), revoked.hasSession("s"), error.mock.calls.length]).toEqual([
    false,
    true,
    1,
  ]);
});

test("a revocation is kept until its given end if that is later than the usual token life", () => {
  const { watch, revoked, send } = open();
  send({ revocations: [{ ...ended("s"), expiresAt: new Date(Date.now() + 2_000_000) }], sequence: 1 });
  watch.close(); // its messages would forget as well
  vi.advanceTimersByTime(2_000_000);
  revoked.forgetEnded(performance.now());
  expect(revoked.hasSession("s")).toBe(true);
  vi.advanceTimersByTime(1_001);
  revoked.forgetEnded(performance.now());
  expect(revoked.hasSession("s")).toBe(false);
});

test.each([
  ["without an end", undefined],
  ["with an end in a hundred years", new Date(START.getTime() + 100 * 365 * 86_400_000)],
])("a revocation %s is kept as long as any token may live, and no longer", (_what, expiresAt) => {
  const { watch, revoked, send } = open();
  send({ revocations: [{ ...ended("s"), expiresAt }], sequence: 1 });
  watch.close(); // its messages would forget as well
  vi.advanceTimersByTime(3_610_000);
  revoked.forgetEnded(performance.now());
  expect(revoked.hasSession("s")).toBe(true);
  vi.advanceTimersByTime(1_001);
  revoked.forgetEnded(performance.now());
  expect(revoked.hasSession("s")).toBe(false);
});

test("a ban counts without an onKeyBanned callback", () => {
  const { revoked, send } = open();
  send({ revocations: [{ ...ended(""), target: { $case: "keyId", value: KEY_ID } }], sequence: 1 });
  expect(revoked.hasKey(KEY_ID)).toBe(true);
});

test("a key that is dropped is a change of the keys", () => {
  const keySets: string[][] = [];
  const { watch, send } = open({ onKeys: (keyIds) => keySets.push([...keyIds]) });
  send({ rules: rules("a", "b") });
  send({ rules: rules("a") });
  expect(keySets).toEqual([["a", "b"], ["a"]]);
  expect(watch.rules?.keys.has("b")).toBe(false);
});

test("a read at the moment of the request is new enough for all waiters, and leaves no timer", async () => {
  const { watch, send } = open();
  send();
  const timers = vi.getTimerCount();
  vi.advanceTimersByTime(100);
  const waiting = [watch.readAgain(1_500), watch.readAgain(1_500)];
  send();
  expect(vi.getTimerCount()).toBe(timers);
  expect(await Promise.all(waiting)).toEqual([true, true]);
});
