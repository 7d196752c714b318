import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { sampleIntent, sampleOutcome } from "../stream/entry.fixture.ts";
import type { RecordStreamHandlers } from "../stream/record-stream.ts";
import { createRecorderMetrics } from "../stream/recorder-metrics.ts";
import { Recorder, type RecorderLimits } from "./recorder.ts";

const LIMITS: RecorderLimits = {
  maxQueuedEntries: 10,
  reservedForOutcomes: 2,
  stallTimeoutMs: 2_000,
  unreadyAfterMs: 1_000,
  spoolAfterMs: 250,
};

/** A stream to a service that does what the test says. */
interface FakeStream {
  requests: RecordRequest[];
  isCancelled: boolean;
  accepts: boolean;
  /** Sequences sent, in order. */
  sent(): number[];
  acknowledge(sequence: number): void;
  drain(): void;
  end(error?: DomainError): void;
}

let streams: FakeStream[];
let metrics: Metrics;
let recorder: Recorder;
let stalls: number;
/** Whether new streams take more after a message. */
let newStreamsAccept: boolean;
/** Parsed log lines. */
let lines: Record<string, unknown>[];

beforeEach(() => {
  vi.useFakeTimers();
  streams = [];
  newStreamsAccept = true;
  stalls = 0;
  lines = [];
});

afterEach(async () => {
  const closed = recorder.close(0);
  await vi.advanceTimersByTimeAsync(1);
  await closed;
  vi.useRealTimers();
});

test("entries are numbered from 1 and sent in order; record() resolves with the acknowledgement", async () => {
  startAnswered();
  const settled = [outcomeOf(record()), outcomeOf(record())];
  await turn();
  expect(latest().sent()).toEqual([1, 2]);
  latest().acknowledge(1);
  await turn();
  expect(settled.map((each) => each.state)).toEqual(["resolved", "waiting"]);
  latest().acknowledge(2);
  await turn();
  expect(settled.map((each) => each.state)).toEqual(["resolved", "resolved"]);
});

test("a stream gets only the empty message before its first answer", async () => {
  start();
  recorder.enqueue(sampleOutcome());
  await turn();
  expect(latest().requests.map(({ entries }) => entries.length)).toEqual([0]);
  latest().acknowledge(0);
  expect(latest().requests.map(({ entries }) => entries.length)).toEqual([0, 1]);
});

test("entries of one event loop turn are sent in messages of at most 200", async () => {
  startAnswered({ maxQueuedEntries: 1_000 });
  for (let index = 0; index < 450; index += 1) recorder.enqueue(sampleOutcome());
  await turn();
  expect(latest().requests.map(({ entries }) => entries.length)).toEqual([0, 200, 200, 50]);
});

test("after a reconnect all unacknowledged entries are sent again, in order and with the same ids", async () => {
  startAnswered();
  for (let index = 0; index < 4; index += 1) recorder.enqueue(sampleOutcome());
  await turn();
  const before = entryIds(latest());
  latest().acknowledge(2);
  latest().end(new DomainError("service_unavailable"));
  await vi.advanceTimersByTimeAsync(50);
  expect(streams).toHaveLength(2);
  expect(latest().sent()).toEqual([3, 4]);
  expect(entryIds(latest())).toEqual(before.slice(2));
});

test("a stream gets only one message before its first answer", async () => {
  startAnswered({ maxQueuedEntries: 1_000 });
  for (let index = 0; index < 450; index += 1) recorder.enqueue(sampleOutcome());
  latest().end(new DomainError("service_unavailable"));
  await vi.advanceTimersByTimeAsync(50);
  expect(latest().requests.map(({ entries }) => entries.length)).toEqual([200]);
  latest().acknowledge(200);
  expect(latest().requests.map(({ entries }) => entries.length)).toEqual([200, 200, 50]);
});

test("the producer stays the same across reconnects", async () => {
  start();
  recorder.enqueue(sampleOutcome());
  latest().end();
  await vi.advanceTimersByTimeAsync(50);
  expect(new Set(streams.flatMap(({ requests }) => requests.map(({ producerId }) => producerId)))).toEqual(
    new Set(["producer"]),
  );
});

test("record() without a timely acknowledgement rejects, and its entry is still sent", async () => {
  start();
  latest().end(new DomainError("service_unavailable"));
  const settled = outcomeOf(recorder.record(sampleIntent(), Date.now() + 10));
  await vi.advanceTimersByTimeAsync(11);
  expect(settled).toMatchObject({
    state: "rejected",
    error: {
      code: "audit_unavailable",
      retryAfterMs: 1_000,
      message: "The entry was not acknowledged in time",
    },
  });
  await vi.advanceTimersByTimeAsync(100);
  expect(latest().sent()).toEqual([1]);
});

test("record() after its deadline rejects at once, and its entry is not sent", async () => {
  start();
  const settled = outcomeOf(recorder.record(sampleIntent(), Date.now()));
  await turn();
  expect(settled).toMatchObject({
    state: "rejected",
    error: { code: "audit_unavailable", message: "The deadline has passed" },
  });
  expect(latest().sent()).toEqual([]);
});

test("a full queue refuses intents, but has a reserve for outcomes", async () => {
  startAnswered();
  const waiting = Array.from({ length: 8 }, () => outcomeOf(record()));
  await expect(record()).rejects.toMatchObject({ code: "audit_unavailable" });
  recorder.enqueue(sampleOutcome());
  recorder.enqueue(sampleOutcome());
  expect(() => recorder.enqueue(sampleOutcome())).toThrowError(
    expect.objectContaining({
      code: "audit_unavailable",
      retryAfterMs: 1_000,
      message: "The queue is full",
    }),
  );
  await turn();
  latest().acknowledge(10);
  await turn();
  expect(waiting.every(({ state }) => state === "resolved")).toBe(true);
  recorder.enqueue(sampleOutcome());
});

test("an acknowledgement beyond the last sent entry acknowledges only sent entries", async () => {
  startAnswered();
  latest().accepts = false;
  recorder.enqueue(sampleOutcome());
  await turn();
  const settled = outcomeOf(record());
  await turn();
  expect(latest().sent()).toEqual([1]);
  latest().acknowledge(99);
  await turn();
  expect(settled.state).toBe("waiting");
});

test("nothing is sent while the stream is backed up", async () => {
  startAnswered();
  latest().accepts = false;
  recorder.enqueue(sampleOutcome());
  await turn();
  recorder.enqueue(sampleOutcome());
  await turn();
  expect(latest().sent()).toEqual([1]);
  latest().accepts = true;
  latest().drain();
  expect(latest().sent()).toEqual([1, 2]);
});

test("a stream backed up by its first message gets more after an answer and a drain, in either order", async () => {
  newStreamsAccept = false;
  start();
  recorder.enqueue(sampleOutcome());
  await turn();
  latest().acknowledge(0);
  expect(latest().sent()).toEqual([]);
  latest().drain();
  expect(latest().sent()).toEqual([1]);
  latest().end();
  await vi.advanceTimersByTimeAsync(1_000);
  recorder.enqueue(sampleOutcome());
  await turn();
  latest().drain();
  expect(latest().sent()).toEqual([1]);
  latest().acknowledge(1);
  expect(latest().sent()).toEqual([1, 2]);
});

test("after 2 s without a due answer, the connection is replaced and the entries are sent again", async () => {
  startAnswered();
  await vi.advanceTimersByTimeAsync(60_000); // nothing owed, nothing wrong
  expect(streams).toHaveLength(1);

  recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(1_999);
  expect(stalls).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(stalls).toBe(1);
  expect(streams[0]?.isCancelled).toBe(true);
  await vi.advanceTimersByTimeAsync(50);
  expect(latest().sent()).toEqual([1]);
});

test("a recorder that owes nothing wakes nobody", async () => {
  startAnswered();
  recorder.enqueue(sampleOutcome());
  await turn();
  latest().acknowledge(1);
  await vi.advanceTimersByTimeAsync(100);
  expect(vi.getTimerCount()).toBe(0);
});

test("a stream that is reopened at rest and does not answer is replaced", async () => {
  startAnswered();
  await vi.advanceTimersByTimeAsync(100);
  latest().end();
  await expect.poll(() => streams.length).toBe(2);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(stalls).toBe(1);
});

test("entries sent meanwhile do not extend that time", async () => {
  startAnswered();
  for (let index = 0; index < 5; index += 1) {
    recorder.enqueue(sampleOutcome());
    await vi.advanceTimersByTimeAsync(500);
  }
  expect(stalls).toBe(1);
});

test("a stream that never answered is also replaced", async () => {
  start();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(stalls).toBe(1);
});

test("an idle stream that ends is reopened, and its connection is kept", async () => {
  startAnswered();
  await vi.advanceTimersByTimeAsync(60_040);
  latest().end();
  await vi.advanceTimersByTimeAsync(15); // there is no stream at the next look
  expect([stalls, streams.length]).toEqual([0, 1]);
  await vi.advanceTimersByTimeAsync(5);
  expect(streams).toHaveLength(2);
});

test("a slow service that still acknowledges keeps its connection", async () => {
  startAnswered();
  for (let index = 0; index < 5; index += 1) recorder.enqueue(sampleOutcome());
  await turn();
  for (let sequence = 1; sequence <= 5; sequence += 1) {
    await vi.advanceTimersByTimeAsync(1_500);
    latest().acknowledge(sequence);
  }
  expect(stalls).toBe(0);
});

test("retries continue without end, at most every half second", async () => {
  start();
  for (let failure = 0; failure < 100; failure += 1) {
    latest().end(new DomainError("service_unavailable"));
    await vi.advanceTimersByTimeAsync(500);
  }
  expect(streams).toHaveLength(101);
  latest().end(new DomainError("service_unavailable"));
  await vi.advanceTimersByTimeAsync(499);
  expect(streams).toHaveLength(101);
});

test("the recorder is unready after a second without the service, or with a full queue", async () => {
  start();
  expect(() => recorder.assertReady()).toThrow();
  latest().acknowledge(0);
  recorder.assertReady();

  latest().end(new DomainError("service_unavailable"));
  await vi.advanceTimersByTimeAsync(1_000);
  recorder.assertReady();
  await vi.advanceTimersByTimeAsync(1);
  expect(() => recorder.assertReady()).toThrow("audit-service does not answer");

  latest().acknowledge(0);
  recorder.assertReady();
  for (let index = 0; index < 8; index += 1) recorder.enqueue(sampleOutcome());
  expect(() => recorder.assertReady()).toThrow("The queue is full");
});

test("repeated failures count as one outage since the last answer", async () => {
  startAnswered();
  for (let failure = 0; failure < 5; failure += 1) {
    latest().end(new DomainError("service_unavailable"));
    await vi.advanceTimersByTimeAsync(250);
  }
  expect(() => recorder.assertReady()).toThrow("audit-service does not answer");
});

test("close waits for all queued entries, and leaves no timer", async () => {
  startAnswered();
  const settled = [outcomeOf(record()), outcomeOf(record())];
  const closed = outcomeOf(recorder.close(1_000));
  await turn();
  latest().acknowledge(1);
  await turn();
  expect(closed.state).toBe("waiting");
  latest().acknowledge(2);
  await turn();
  expect([closed, ...settled].map(({ state }) => state)).toEqual(["resolved", "resolved", "resolved"]);
  expect(latest().isCancelled).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
  expect(lines).toEqual([]);
});

test("close ends at once without queued entries, also between two streams", async () => {
  startAnswered();
  latest().end();
  const closed = outcomeOf(recorder.close(1_000));
  await turn();
  expect(closed.state).toBe("resolved");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(streams).toHaveLength(1);
});

test("close gives up after its grace period and rejects waiting calls", async () => {
  start();
  const settled = outcomeOf(record());
  const closed = outcomeOf(recorder.close(500));
  await vi.advanceTimersByTimeAsync(501);
  expect(closed.state).toBe("resolved");
  const closing = { code: "audit_unavailable", message: "The recorder is closed" };
  expect(settled).toMatchObject({ state: "rejected", error: closing });
  expect(() => recorder.enqueue(sampleOutcome())).toThrowError(expect.objectContaining(closing));
  expect(() => recorder.assertReady()).toThrowError(expect.objectContaining(closing));
  expect(lines).toMatchObject([{ level: 50, entries: 1 }]);
});

test("a lost stream is logged once per reason and its return once; an orderly end is not logged", async () => {
  startAnswered();
  latest().end();
  await vi.advanceTimersByTimeAsync(500);
  latest().acknowledge(0);
  expect(lines).toEqual([]);
  for (const code of ["service_unavailable", "service_unavailable", "caller_not_allowed"] as const) {
    latest().end(new DomainError(code));
    await vi.advanceTimersByTimeAsync(500);
  }
  latest().acknowledge(0);
  latest().end(new DomainError("caller_not_allowed"));
  expect(lines).toMatchObject([
    { level: 40, err: { code: "service_unavailable" } },
    { level: 40, err: { code: "caller_not_allowed" } },
    { level: 30 },
    { level: 40, err: { code: "caller_not_allowed" } },
  ]);
});

test("a permanently refused entry stays queued for inspection", async () => {
  start();
  recorder.enqueue(sampleOutcome());
  for (let failure = 0; failure < 10; failure += 1) {
    latest().end(new DomainError("validation_failed"));
    await vi.advanceTimersByTimeAsync(2_000);
  }
  expect(latest().sent()).toEqual([1]);
});

test("queue, acknowledgements and reconnects are counted", async () => {
  startAnswered();
  for (let index = 0; index < 3; index += 1) recorder.enqueue(sampleOutcome());
  await turn();
  latest().acknowledge(2);
  latest().end();
  const text = await metrics.render();
  expect(text).toMatch(/^gatehouse_audit_queued_entries\{.*\} 1$/m);
  expect(text).toMatch(/^gatehouse_audit_acknowledged_total\{.*\} 2$/m);
  expect(text).toMatch(/^gatehouse_audit_reconnects_total\{.*\} 1$/m);
});

test("the time until an entry is durable is measured", async () => {
  startAnswered();
  await vi.advanceTimersByTimeAsync(1_000);
  recorder.enqueue(sampleOutcome());
  const settled = outcomeOf(record());
  await vi.advanceTimersByTimeAsync(1_500);
  latest().acknowledge(2);
  await turn();
  expect(settled.state).toBe("resolved");
  const text = await metrics.render();
  expect(text).toMatch(/^gatehouse_audit_durable_seconds_sum\{.*\} 1\.5$/m);
  expect(text).toMatch(/^gatehouse_audit_durable_seconds_count\{.*\} 1$/m);
});

function start(limits: Partial<RecorderLimits> = {}): void {
  let entries = 0;
  metrics = createMetrics("test");
  recorder = new Recorder({
    openStream: (handlers) => {
      const stream = fakeStream(handlers);
      streams.push(stream);
      return {
        send(request) {
          stream.requests.push(request);
          return stream.accepts;
        },
        cancel() {
          stream.isCancelled = true;
        },
      };
    },
    onStall: () => {
      stalls += 1;
    },
    producerId: "producer",
    newEntryId: () => {
      entries += 1;
      return `entry-${entries}`;
    },
    random: () => 1,
    limits: { ...LIMITS, ...limits },
    logger: pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) }),
    metrics: createRecorderMetrics(metrics, () => recorder.queuedEntries),
  });
}

/** As `start`, and the service has answered. */
function startAnswered(limits: Partial<RecorderLimits> = {}): void {
  start(limits);
  latest().acknowledge(0);
}

function fakeStream(handlers: RecordStreamHandlers): FakeStream {
  const requests: RecordRequest[] = [];
  return {
    requests,
    isCancelled: false,
    accepts: newStreamsAccept,
    sent: () => requests.flatMap(({ entries }) => entries.map(({ sequence }) => sequence)),
    acknowledge: (sequence) => handlers.onAcknowledged(sequence),
    drain: () => handlers.onDrain(),
    end: (error) => handlers.onEnd(error),
  };
}

function latest(): FakeStream {
  const stream = streams.at(-1);
  if (stream === undefined) throw new Error("no stream was opened");
  return stream;
}

function entryIds(stream: FakeStream): (string | undefined)[] {
  return stream.requests.flatMap(({ entries }) => entries.map(({ entry }) => entry?.id));
}

function record(): Promise<void> {
  return recorder.record(sampleIntent(), Date.now() + 5_000);
}

function outcomeOf(promise: Promise<unknown>) {
  const outcome: { state: "waiting" | "resolved" | "rejected"; error?: unknown } = { state: "waiting" };
  promise.then(
    () => {
      outcome.state = "resolved";
    },
    (error: unknown) => {
      outcome.state = "rejected";
      outcome.error = error;
    },
  );
  return outcome;
}

/** One turn of the event loop. */
async function turn(): Promise<void> {
  await vi.advanceTimersByTimeAsync(0);
}
