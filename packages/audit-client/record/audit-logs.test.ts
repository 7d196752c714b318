import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { FaultyDisk } from "../spool/faulty-disk.fixture.ts";
import { Spool } from "../spool/spool.ts";
import { sampleEvent, sampleIntent, sampleOutcome } from "../stream/entry.fixture.ts";
import { newProducerId } from "../stream/producer-id.ts";
import type { RecordStreamHandlers } from "../stream/record-stream.ts";
import { createRecorderMetrics } from "../stream/recorder-metrics.ts";
import { AuditLogs } from "./audit-logs.ts";
import { Recorder } from "./recorder.ts";

const SPOOL_AFTER_MS = 250;

/** A log that answers, is silent, or refuses its streams. */
interface Log {
  state: "there" | "silent" | "away";
  /** Resources of its entries, as they were stored. */
  stored: string[];
  disk: FaultyDisk;
  recorder: Recorder;
}

let logs: Log[];
let all: AuditLogs;
let metrics: Metrics;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(async () => {
  const closed = all.close(0);
  await vi.advanceTimersByTimeAsync(10);
  await closed;
  vi.useRealTimers();
});

test("calls, refused calls and events take the logs in turn", async () => {
  await start(3);
  for (let call = 0; call < 3; call += 1) await durable(all.next().record(intent(`call ${call}`), inTime()));
  all.next().enqueue(sampleOutcome({ resource: "refused" }));
  await durable(all.recordEvent(sampleEvent({ resource: "event" }), inTime()));
  expect(logs.map(({ stored }) => stored)).toEqual([["call 0", "refused"], ["call 1", "event"], ["call 2"]]);
});

test.each([true, false])(
  "a log that does not answer gets no new calls, and what it has is sent when it answers (spool: %s)",
  async (hasSpool) => {
    await start(3, { hasSpool });
    log(1).state = "silent";
    for (let call = 0; call < 3; call += 1) all.next().enqueue(intent(`call ${call}`));
    await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
    for (let call = 3; call < 7; call += 1) {
      await durable(all.next().record(intent(`call ${call}`), inTime()));
    }
    expect(logs.map(({ stored }) => stored)).toEqual([
      ["call 0", "call 3", "call 5"],
      [],
      ["call 2", "call 4", "call 6"],
    ]);
    log(1).state = "there";
    await vi.advanceTimersByTimeAsync(5_000);
    expect(log(1).stored).toEqual(["call 1"]);
    for (let call = 7; call < 10; call += 1) await durable(all.next().record(intent(""), inTime()));
    expect(logs.map(({ stored }) => stored.length)).toEqual([4, 2, 4]);
  },
);

test("new calls do not wait for a log that is away", async () => {
  await start(2);
  await leave(log(0));
  for (let call = 0; call < 4; call += 1) {
    const startedMs = performance.now();
    await durable(all.next().record(intent("now"), inTime()));
    expect(performance.now() - startedMs).toBeLessThan(10);
  }
  expect(logs.map(({ stored }) => stored.length)).toEqual([0, 4]);
});

test("an outcome follows its intent, although its log is away now and the others answer", async () => {
  await start(2);
  const recorder = all.next();
  await durable(recorder.record(intent("call"), inTime()));
  await leave(log(0));
  await durable(recorder.record(sampleOutcome({ resource: "outcome" }), inTime()));
  expect(log(1).stored).toEqual([]);
  log(0).state = "there";
  await vi.advanceTimersByTimeAsync(5_000);
  expect(log(0).stored).toEqual(["call", "late", "outcome"]);
});

test("an intent whose log falls silent before the acknowledgement becomes durable on the disk of that log", async () => {
  await start(2);
  log(0).state = "silent";
  await durable(all.next().record(intent("call"), inTime()));
  expect(logs.map(({ disk }) => disk.files.size)).toEqual([1, 0]);
});

test("while all logs are away, calls go to their disks in turn, and the process is ready", async () => {
  await start(2);
  for (const each of logs) await leave(each);
  const before = logs.map(({ recorder }) => recorder.queuedEntries);
  for (let call = 0; call < 4; call += 1) await durable(all.next().record(intent("call"), inTime()));
  expect(logs.map(({ recorder }, at) => recorder.queuedEntries - (before[at] ?? 0))).toEqual([2, 2]);
  all.assertReady();
});

test("while all logs are away, one whose disk fails gets no calls; if none works, calls are refused", async () => {
  await start(2);
  for (const each of logs) await leave(each);
  await fail(log(0));
  for (let call = 0; call < 4; call += 1) await durable(all.next().record(intent("call"), inTime()));
  all.assertReady();
  await fail(log(1));
  const refused = expect.objectContaining({ code: "audit_unavailable" });
  await expect(all.next().record(intent("call"), inTime())).rejects.toEqual(refused);
  expect(() => all.assertReady()).toThrow(refused);
});

test("a log with a full queue gets no calls while another has room", async () => {
  await start(2, { hasSpool: false });
  log(0).state = "silent";
  // Full at once: not late yet.
  for (let entry = 0; entry < 8; entry += 1) log(0).recorder.enqueue(intent("queued"));
  for (let call = 0; call < 3; call += 1) await durable(all.next().record(intent("call"), inTime()));
  expect(log(1).stored).toHaveLength(3);
});

test("without a spool, logs that do not answer refuse calls and make the process unready only together", async () => {
  await start(2, { hasSpool: false });
  log(0).state = "away";
  log(0).recorder.enqueue(sampleOutcome());
  breakStreams(log(0));
  await vi.advanceTimersByTimeAsync(1_100);
  all.assertReady();
  log(1).state = "away";
  breakStreams(log(1));
  await vi.advanceTimersByTimeAsync(1_100);
  expect(() => all.assertReady()).toThrow("audit-service does not answer");
  const refused = expect(all.next().record(intent("call"), inTime())).rejects.toThrow(
    "not acknowledged in time",
  );
  await vi.advanceTimersByTimeAsync(1_100);
  await refused;
});

test("a single log has every turn, also while it is away", async () => {
  await start(1);
  await durable(all.next().record(intent("call"), inTime()));
  await leave(log(0));
  await durable(all.next().record(intent("later"), inTime()));
  await durable(all.next().record(intent("later"), inTime()));
  expect(log(0).recorder.queuedEntries).toBe(3);
});

test("close sends what all logs have, and leaves the rest on the disk", async () => {
  await start(3);
  log(1).state = "silent";
  for (let call = 0; call < 6; call += 1) all.next().enqueue(intent(`call ${call}`));
  const closed = all.close(1_000);
  await vi.advanceTimersByTimeAsync(1_100);
  await closed;
  expect(logs.map(({ stored }) => stored)).toEqual([["call 0", "call 3"], [], ["call 2", "call 5"]]);
  expect(logs.map(({ disk }) => disk.files.size)).toEqual([0, 1, 0]);
});

test("metrics are the sums over all logs", async () => {
  await start(3);
  log(0).state = "silent";
  log(1).state = "silent";
  for (let call = 0; call < 6; call += 1) all.next().enqueue(intent("call"));
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  const text = await metrics.render();
  expect(text).toMatch(/^gatehouse_audit_queued_entries\{.*\} 4$/m);
  expect(text).toMatch(/^gatehouse_audit_acknowledged_total\{.*\} 2$/m);
  expect(text).toMatch(/^gatehouse_audit_spooled_total\{.*\} 4$/m);
});

const streams = new Map<Log, (() => void)[]>();

async function start(count: number, { hasSpool = true } = {}): Promise<void> {
  metrics = createMetrics("test");
  streams.clear();
  const recorderMetrics = createRecorderMetrics(metrics, () =>
    logs.reduce((sum, { recorder }) => sum + recorder.queuedEntries, 0),
  );
  logs = Array.from({ length: count }, (_, number) => {
    const disk = new FaultyDisk();
    const producerId = newProducerId(number);
    const made = { state: "there", stored: [], disk } as Omit<Log, "recorder"> as Log;
    const spool = new Spool({
      files: disk,
      directory: "/spool",
      damagedDirectory: "/spool/.damaged",
      producerId,
      maxBytes: 1e7,
      bytesOfOthers: () => 0,
      onDamage: () => undefined,
    });
    made.recorder = new Recorder({
      openStream: (handlers) => openStream(made, handlers),
      onStall: () => undefined,
      spool: hasSpool ? spool : undefined,
      producerId,
      newEntryId: () => "0190b6a0-0000-7000-8000-0000000000ff",
      random: () => 1,
      limits: {
        maxQueuedEntries: 10,
        reservedForOutcomes: 2,
        stallTimeoutMs: 2_000,
        unreadyAfterMs: 1_000,
        spoolAfterMs: SPOOL_AFTER_MS,
      },
      logger: pino({ level: "silent" }),
      metrics: recorderMetrics,
    });
    return made;
  });
  all = new AuditLogs(logs.map(({ recorder }) => recorder));
  await vi.advanceTimersByTimeAsync(10);
}

function log(number: number): Log {
  return logs[number] as Log;
}

function openStream(log: Log, handlers: RecordStreamHandlers) {
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    handlers.onEnd(new DomainError("service_unavailable"));
  };
  streams.set(log, [...(streams.get(log) ?? []), end]);
  if (log.state === "away") setTimeout(end, 1);
  return {
    send({ entries }: RecordRequest) {
      setTimeout(() => {
        if (isOver || log.state !== "there") return;
        log.stored.push(...entries.map(({ entry }) => entry?.resource ?? ""));
        handlers.onAcknowledged(entries.at(-1)?.sequence ?? 0);
      }, 2);
      return true;
    },
    cancel() {
      isOver = true;
    },
  };
}

function breakStreams(log: Log): void {
  for (const end of streams.get(log) ?? []) end();
}

/** The log is away, and an entry is on its disk. */
async function leave(log: Log): Promise<void> {
  log.state = "away";
  log.recorder.enqueue(sampleOutcome({ resource: "late" }));
  breakStreams(log);
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
}

/** The disk of a log that is away fails. */
async function fail(log: Log): Promise<void> {
  for (const operation of ["create", "write", "datasync"] as const) log.disk.failing.set(operation, "EIO");
  log.recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(10);
}

function intent(resource: string) {
  return sampleIntent({ resource });
}

function inTime(): number {
  return Date.now() + 1_000;
}

/** Waits with the clock running. */
async function durable(promise: Promise<void>): Promise<void> {
  let isOver = false;
  const settled = promise.finally(() => {
    isOver = true;
  });
  settled.catch(() => undefined);
  for (let step = 0; step < 1_100 && !isOver; step += 1) await vi.advanceTimersByTimeAsync(1);
  await settled;
}
