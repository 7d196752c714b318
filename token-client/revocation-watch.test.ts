import { EventEmitter } from "node:events";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type {
  TokenServiceClient,
  WatchRevocationsRequest,
  WatchRevocationsResponse,
} from "../proto/gen/gatehouse/token/v1/token_service.ts";
import { RevocationSet } from "./revocation-set.ts";
import { RevocationWatch, type RevocationWatchOptions } from "./revocation-watch.ts";

const START = new Date("2026-01-01T00:00:00Z");
const KEY_ID = "k".repeat(43);
let watches: RevocationWatch[];

beforeEach(() => {
  watches = [];
  vi.useFakeTimers({ toFake: ["Date", "performance", "setTimeout", "clearTimeout"], now: START });
});
afterEach(() => {
  for (const watch of watches) watch.close();
  vi.useRealTimers();
});

/** A watch of a token-service whose messages the test sends. */
function open(options: Partial<RevocationWatchOptions> = {}) {
  const streams: EventEmitter[] = [];
  const requests: WatchRevocationsRequest[] = [];
  const client = {
    watchRevocations(request: WatchRevocationsRequest) {
      requests.push(request);
      const stream = Object.assign(new EventEmitter(), { cancel: () => undefined });
      streams.push(stream);
      return stream;
    },
  } as unknown as TokenServiceClient;
  const revoked = new RevocationSet(100);
  const watch = new RevocationWatch({ client, revoked, logger: pino({ level: "silent" }), ...options });
  watches.push(watch);
  const openedAtMs = performance.now();
  const send = (message: Partial<WatchRevocationsResponse> = {}) =>
    streams.at(-1)?.emit("data", {
      revocations: [],
      sequence: 0,
      tip: "",
      caughtUp: true,
      elapsedMs: performance.now() - openedAtMs,
      readAt: new Date(),
      keepS: 910,
      rules: undefined,
      ...message,
    } satisfies WatchRevocationsResponse);
  return { watch, revoked, send, streams, requests };
}

const rules = (...keyIds: string[]) => ({
  issuer: "https://auth.example",
  keys: keyIds.map((keyId) => ({ keyId, algorithm: "EdDSA" })),
});
const ended = (sessionId: string, sequence = 1) => ({
  sequence,
  target: { $case: "sessionId" as const, value: sessionId },
  expiresAt: new Date(Date.now() + 910_000),
});

test("a part of the backlog does not make the view complete, nor fresh again", () => {
  const { watch, send } = open();
  send({ caughtUp: false });
  expect(watch.isFresh).toBe(false);
  send();
  expect(watch.isFresh).toBe(true);
  vi.advanceTimersByTime(1_900);
  send({ caughtUp: false });
  vi.advanceTimersByTime(1_200);
  expect(watch.isFresh).toBe(false);
});

test("three seconds count from the read of the log, not from the message's arrival", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(800);
  send({ elapsedMs: 0 });
  expect(watch.isFresh).toBe(true);
  vi.advanceTimersByTime(2_200);
  expect(watch.isFresh).toBe(true);
  vi.advanceTimersByTime(1);
  expect(watch.isFresh).toBe(false);
});

test.each([
  ["that was under way for long", 0, 500],
  ["of a later read than can be: this machine was suspended", 3_600, 0],
])("after a message %s the stream is opened anew; what it revokes counts", (_what, elapsedMs, freshForMs) => {
  const { watch, revoked, send, requests } = open();
  vi.advanceTimersByTime(1_000);
  send({ caughtUp: false });
  vi.advanceTimersByTime(1_500);
  send({ elapsedMs, revocations: [ended("s")], sequence: 1, tip: "mark" });
  expect(watch.isFresh).toBe(freshForMs > 0);
  expect(revoked.hasSession("s")).toBe(true);
  vi.advanceTimersByTime(100);
  expect(requests).toEqual([
    { afterSequence: 0, tip: "" },
    { afterSequence: 1, tip: "mark" },
  ]);
  vi.advanceTimersByTime(Math.max(0, freshForMs - 99));
  expect(watch.isFresh).toBe(false);
});

test("a message of an older read than is known takes nothing back", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(1_000);
  send();
  send({ elapsedMs: 0 });
  vi.advanceTimersByTime(2_900);
  expect(watch.isFresh).toBe(true);
});

test("a token-service of the version before tells no age: its messages count from their arrival", () => {
  const { watch, send } = open();
  vi.advanceTimersByTime(1_900);
  send({ elapsedMs: undefined, readAt: undefined, keepS: 0 });
  expect(watch.isFresh).toBe(true);
  expect(watch.serverNowMs).toBeUndefined();
});

test("a wall clock that jumps ahead ends the trust until the next message; one that falls back does nothing", () => {
  const { watch, send } = open();
  send();
  vi.setSystemTime(new Date(START.getTime() + 1_200_000));
  expect(watch.isFresh).toBe(false);
  send();
  expect(watch.isFresh).toBe(true);
  vi.setSystemTime(START);
  expect(watch.isFresh).toBe(true);
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

test("without a word on how long to keep, it is the longest life of any token", () => {
  const { revoked, send } = open();
  send({ revocations: [{ ...ended("s"), expiresAt: new Date(0) }], sequence: 1, keepS: 0 });
  vi.advanceTimersByTime(3_609_000);
  send({ sequence: 1 });
  expect(revoked.hasSession("s")).toBe(true);
});

test("a ban and a change of the keys are told, each once", () => {
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

test("rules hold for the stream that told them, and only while it is fresh", () => {
  const { watch, send, streams } = open();
  send({ rules: rules(KEY_ID) });
  send();
  expect(watch.rules?.keys.has(KEY_ID)).toBe(true);
  streams.at(-1)?.emit("end");
  vi.advanceTimersByTime(100);
  send({ elapsedMs: undefined }); // a replica of the version before
  expect(watch.rules).toBeUndefined();
});

test("whoever waits for a read gets one that began later, or learns that there was none", async () => {
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
