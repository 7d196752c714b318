import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { FaultyDisk } from "../spool/faulty-disk.fixture.ts";
import { Spool } from "../spool/spool.ts";
import { FILE_HEADER_BYTES, recordBytes } from "../spool/spool-record.ts";
import { sampleEvent, sampleIntent, sampleOutcome } from "../stream/entry.fixture.ts";
import type { RecordStreamHandlers } from "../stream/record-stream.ts";
import { createRecorderMetrics } from "../stream/recorder-metrics.ts";
import { MAX_ENTRY_BYTES } from "../stream/to-proto.ts";
import { Recorder } from "./recorder.ts";

const PRODUCER = "7d8f4f0e-6f0a-4c56-9a0e-0d6a3f5d2b11";
const SPOOL_AFTER_MS = 250;
/** The space reserved for each pending outcome. */
const MAX_SPOOLED_BYTES = recordBytes(MAX_ENTRY_BYTES);
const MAX_BYTES = 10_000_000;

/** A service that can be there, be silent, or be away; it stores what it is sent, once. */
interface Service {
  state: "there" | "silent" | "away";
  /** Whether its streams accept writes without back-pressure. */
  accepts: boolean;
  /** Sequences in the order of storing. */
  stored: number[];
  ids: Set<string>;
  repeated: number;
}

let disk: FaultyDisk;
let service: Service;
let metrics: Metrics;
let recorder: Recorder;
let spool: Spool;
/** Bytes of orphaned files. */
let othersBytes: number;
let streams: { handlers: RecordStreamHandlers; isOver: boolean; sent: number[] }[];
/** Log lines about the spool. */
let spoolLines: [level: number, text: string][];

beforeEach(() => {
  vi.useFakeTimers();
  disk = new FaultyDisk();
  service = { state: "there", accepts: true, stored: [], ids: new Set(), repeated: 0 };
  streams = [];
  othersBytes = 0;
  spoolLines = [];
});

afterEach(async () => {
  const closed = recorder.close(0);
  await vi.advanceTimersByTimeAsync(10);
  await closed;
  vi.useRealTimers();
});

test("the disk is not used while the service acknowledges in time", async () => {
  await start();
  for (let index = 0; index < 20; index += 1) await durable(record());
  await vi.advanceTimersByTimeAsync(5_000);
  expect([disk.syncs, service.stored.length]).toEqual([0, 20]);
});

test("a sent entry without a timely acknowledgement becomes durable on the disk, and is stored once", async () => {
  await start();
  service.state = "silent";
  const settled = outcomeOf(record());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS - 60);
  expect([settled.state, disk.syncs]).toEqual(["waiting", 0]);
  await vi.advanceTimersByTimeAsync(120);
  expect([settled.state, disk.syncs]).toEqual(["resolved", 1]);
  service.state = "there";
  await vi.advanceTimersByTimeAsync(5_000);
  expect(service.stored).toEqual([1]);
  expect(disk.files.size).toBe(0);
});

test("the service has the same time for its first answer as for later ones", async () => {
  service.state = "silent";
  await start();
  const settled = outcomeOf(record());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS - 60);
  expect([settled.state, disk.syncs]).toEqual(["waiting", 0]);
});

test("while the service is known to be away, entries wait for the disk only", async () => {
  await startAway();
  const startedMs = performance.now();
  await durable(record());
  expect(performance.now() - startedMs).toBeLessThan(10);
  recorder.assertReady();
});

test("entries of one event loop turn share one fdatasync", async () => {
  await startAway();
  const before = disk.syncs;
  await Promise.all(Array.from({ length: 100 }, () => durable(record())));
  expect(disk.syncs - before).toBeLessThanOrEqual(2);
});

test("when the service returns, spooled and then new entries are sent once and in order, and the disk is emptied", async () => {
  await startAway();
  for (let index = 0; index < 3_000; index += 1) recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(10);
  expect(disk.files.size).toBeGreaterThan(0);
  service.state = "there";
  for (let index = 0; index < 200; index += 1) {
    recorder.enqueue(sampleOutcome());
    await vi.advanceTimersByTimeAsync(5);
  }
  await vi.advanceTimersByTimeAsync(1_000);
  expect(service.stored).toEqual(Array.from({ length: 3_201 }, (_, index) => index + 1));
  expect(service.ids.size).toBe(3_201);
  expect(disk.files.size).toBe(0);
  const syncs = disk.syncs;
  await durable(record());
  expect(disk.syncs).toBe(syncs); // direct again
});

test("no entry is lost, duplicated or reordered by a service with interruptions", async () => {
  await start();
  for (let round = 0; round < 60; round += 1) {
    const state = (["there", "silent", "away"] as const)[(round * 7) % 3] ?? "there";
    service.state = state;
    if (state === "away") breakStream();
    for (let index = 0; index < 11; index += 1) {
      recorder.enqueue(sampleOutcome());
      await vi.advanceTimersByTimeAsync((round * index) % 97);
    }
  }
  service.state = "there";
  await vi.advanceTimersByTimeAsync(10_000);
  expect(service.stored).toEqual(Array.from({ length: 660 }, (_, index) => index + 1));
  expect(disk.files.size).toBe(0);
});

test("a second interruption is handled like the first", async () => {
  await startAway();
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  for (let index = 0; index < 5; index += 1) await durable(record());
  service.state = "away";
  breakStream();
  for (let index = 0; index < 2; index += 1) {
    recorder.enqueue(sampleOutcome());
    await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  }
  expect(await metrics.render()).toMatch(/^gatehouse_audit_queued_entries\{.*\} 2$/m);
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  expect([service.stored, disk.files.size]).toEqual([[1, 2, 3, 4, 5, 6, 7, 8], 0]);
  const episode = [
    [40, expect.stringContaining("entries are written to the spool")],
    [30, "the spool is drained"],
  ];
  expect(spoolLines).toEqual([...episode, ...episode]);
});

test("a stream gets one message from the disk before its first answer; new entries wait for the disk only", async () => {
  await startAway();
  for (let index = 0; index < 999; index += 1) recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(10);
  service.state = "silent";
  await vi.advanceTimersByTimeAsync(600);
  expect(latest().sent).toEqual(Array.from({ length: 200 }, (_, index) => index + 1));
  service.accepts = false;
  latest().handlers.onAcknowledged(200);
  expect(spoolLines.map(([level]) => level)).toEqual([40]); // not drained yet
  const startedMs = performance.now();
  await durable(record());
  expect(performance.now() - startedMs).toBeLessThan(50);
  expect(latest().sent).toHaveLength(400); // and no more until the stream takes it
});

test.each([
  ["before", 0],
  ["after", 600],
])(
  "a stream that fails during a disk read gets nothing, and the next one gets everything (read %s the next is open)",
  async (_when, delayMs) => {
    await startAway();
    for (let index = 0; index < 30; index += 1) await durable(record());
    const held = Promise.withResolvers<void>();
    const read = spool.read.bind(spool);
    vi.spyOn(spool, "read").mockImplementationOnce(async (...range) => {
      await held.promise;
      return read(...range);
    });
    service.state = "silent";
    await vi.advanceTimersByTimeAsync(600);
    const lost = latest();
    breakStream();
    await vi.advanceTimersByTimeAsync(delayMs);
    held.resolve();
    await vi.advanceTimersByTimeAsync(600);
    expect(lost.sent).toEqual([]);
    expect(latest().sent).toEqual(Array.from({ length: 31 }, (_, index) => index + 1));
  },
);

test("a failed read of the spool is counted, logged, and repeated on another stream", async () => {
  await startAway();
  vi.spyOn(spool, "read").mockRejectedValueOnce(new Error("EIO"));
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  expect(service.stored).toEqual([1]);
  expect(spoolLines).toContainEqual([50, expect.stringContaining("cannot be read")]);
  expect(streams.filter(({ isOver }) => !isOver)).toHaveLength(1);
  expect(await metrics.render()).toMatch(/^gatehouse_audit_spool_errors_total\{.*\} 1$/m);
});

test("a failed removal of a spool file is counted and logged, and does not delay other entries", async () => {
  await startAway();
  disk.failing.set("remove", "EIO");
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  await durable(record());
  expect(service.stored).toEqual([1, 2]);
  expect(spoolLines).toContainEqual([50, expect.stringContaining("cannot be removed")]);
  expect(await metrics.render()).toMatch(/^gatehouse_audit_spool_errors_total\{.*\} 1$/m);
});

test("entries added during a write go into the next group, each once", async () => {
  await startAway();
  const held = Promise.withResolvers<void>();
  const write = spool.append.bind(spool);
  const append = vi.spyOn(spool, "append").mockImplementationOnce(async (group) => {
    await held.promise;
    await write(group);
  });
  const settled = [outcomeOf(record())];
  await vi.advanceTimersByTimeAsync(100);
  for (let index = 0; index < 3; index += 1) settled.push(outcomeOf(record()));
  await vi.advanceTimersByTimeAsync(100);
  held.resolve();
  await vi.advanceTimersByTimeAsync(10);
  expect(append.mock.calls.map(([group]) => group.map(({ sequence }) => sequence))).toEqual([[2], [3, 4, 5]]);
  expect(settled.map(({ state }) => state)).toEqual(["resolved", "resolved", "resolved", "resolved"]);
});

test("entries acknowledged during their write are removed from the disk at once", async () => {
  await start();
  const held = Promise.withResolvers<void>();
  const write = spool.append.bind(spool);
  const append = vi.spyOn(spool, "append").mockImplementationOnce(async (group) => {
    await held.promise;
    await write(group);
  });
  service.state = "silent";
  recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  expect(append).toHaveBeenCalledTimes(1);
  latest().handlers.onAcknowledged(1);
  held.resolve();
  await vi.advanceTimersByTimeAsync(10);
  expect([disk.syncs, disk.files.size, streams.length]).toEqual([1, 0, 1]);
});

test("entries on the disk do not count against the queue in memory", async () => {
  await startAway({ maxQueuedEntries: 50, reservedForOutcomes: 10 });
  for (let index = 0; index < 500; index += 1) await durable(record());
  recorder.assertReady();
  expect(await metrics.render()).toMatch(/^gatehouse_audit_queued_entries\{.*\} 501$/m);
});

test("a full spool refuses intents and makes the process unready, but still accepts owed outcomes", async () => {
  await startAway({ maxBytes: 20 * MAX_ENTRY_BYTES });
  let begun = 0;
  for (; begun < 1_000; begun += 1) {
    const settled = outcomeOf(record());
    await vi.advanceTimersByTimeAsync(10);
    if (settled.state === "rejected") break;
  }
  expect(begun).toBeGreaterThan(5);
  expect(begun).toBeLessThan(30);
  await expect(record()).rejects.toMatchObject({ code: "audit_unavailable", retryAfterMs: 1_000 });
  expect(() => recorder.assertReady()).toThrow("full");
  const long = { userAgent: "€".repeat(512), resource: "€".repeat(200), route: "€".repeat(200) };
  for (let index = 0; index < begun; index += 1) {
    await durable(recorder.record(sampleOutcome(long), Date.now() + 60_000));
  }
  service.state = "there";
  await vi.advanceTimersByTimeAsync(5_000);
  recorder.assertReady();
  expect(service.stored).toHaveLength(2 * begun + 1);
});

test("outcomes refused by a full queue release their reserve in the spool", async () => {
  service.state = "there";
  await start({ maxBytes: 20 * MAX_ENTRY_BYTES, maxQueuedEntries: 12, reservedForOutcomes: 2 });
  for (let index = 0; index < 30; index += 1) await durable(record());
  let refused = 0;
  for (let index = 0; index < 30; index += 1) {
    try {
      recorder.enqueue(sampleOutcome());
    } catch {
      refused += 1;
    }
  }
  expect(refused).toBe(18);
  await vi.advanceTimersByTimeAsync(1_000);
  service.state = "away";
  recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  recorder.assertReady();
  await durable(record());
});

test("failed intents release their reserve in the spool", async () => {
  await start({ maxBytes: 8 * MAX_SPOOLED_BYTES });
  service.state = "silent";
  const failed = Array.from({ length: 20 }, () =>
    outcomeOf(recorder.record(sampleIntent(), Date.now() + 10)),
  );
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  expect(new Set(failed.map(({ state }) => state))).toEqual(new Set(["rejected"]));
  recorder.assertReady();
});

test("an intent reserves room for its outcome, an event reserves nothing", async () => {
  await start({ maxBytes: Math.floor(6.6 * MAX_SPOOLED_BYTES) });
  for (let index = 0; index < 5; index += 1) await durable(record());
  service.state = "silent";
  const events = Array.from({ length: 5 }, () =>
    outcomeOf(recorder.recordEvent(sampleEvent(), Date.now() + 10)),
  );
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
  expect(new Set(events.map(({ state }) => state))).toEqual(new Set(["rejected"]));
  expect(() => recorder.assertReady()).toThrow("The spool is full");
  await durable(recorder.record(sampleOutcome(), Date.now() + 60_000));
  recorder.assertReady();
  await durable(record());
  expect(() => recorder.assertReady()).toThrow("The spool is full");
});

test("the spool reserves the exact size of the entries in memory", async () => {
  await startAway();
  const spooledBytes = [...disk.files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);
  othersBytes = MAX_BYTES - spooledBytes - FILE_HEADER_BYTES - 2 * MAX_SPOOLED_BYTES;
  recorder.assertReady();
  othersBytes += 1;
  expect(() => recorder.assertReady()).toThrow("The spool is full");
  othersBytes -= 1;
  recorder.enqueue(sampleOutcome());
  expect(() => recorder.assertReady()).toThrow("The spool is full");
});

test("a full disk does not matter while the service answers", async () => {
  await start({ maxBytes: 100 });
  await durable(record());
  recorder.assertReady();
});

test("a failed disk is retried every second; its failure and its recovery are logged once", async () => {
  await start();
  await vi.advanceTimersByTimeAsync(40); // at a look
  disk.failing.set("create", "EIO");
  service.state = "silent";
  recorder.enqueue(sampleOutcome());
  const append = vi.spyOn(spool, "append");
  const attempts: number[] = [];
  const logged: number[] = [];
  for (const ms of [SPOOL_AFTER_MS - 1, 1, 999, 1, 999]) {
    await vi.advanceTimersByTimeAsync(ms);
    attempts.push(append.mock.calls.length);
    logged.push(spoolLines.length);
  }
  expect(attempts).toEqual([0, 1, 1, 2, 2]);
  expect(logged).toEqual([0, 1, 1, 1, 1]);
  disk.failing.clear();
  await vi.advanceTimersByTimeAsync(1);
  expect(disk.syncs).toBe(1);
  expect(spoolLines).toEqual([
    [50, expect.stringContaining("cannot be written")],
    [30, "the spool can be written again"],
    [40, expect.stringContaining("entries are written to the spool")],
  ]);
});

test.each([
  ["a full disk", "write", "ENOSPC"],
  ["a failed fsync", "datasync", "EIO"],
  ["a read-only file system", "create", "EROFS"],
] as const)(
  "%s: waiting calls are refused at once and the process is unready, until it recovers by itself",
  async (_, operation, code) => {
    await start();
    disk.failing.set(operation, code);
    service.state = "away";
    breakStream();
    const settled = outcomeOf(record());
    await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
    const refusal = { code: "audit_unavailable", message: "The spool cannot be written" };
    expect(settled).toMatchObject({ state: "rejected", error: refusal });
    await expect(record()).rejects.toMatchObject(refusal);
    expect(() => recorder.assertReady()).toThrowError(expect.objectContaining(refusal));
    recorder.enqueue(sampleOutcome());

    disk.failing.clear();
    await vi.advanceTimersByTimeAsync(1_100);
    recorder.assertReady();
    await durable(record());
    expect(await metrics.render()).toMatch(/^gatehouse_audit_spool_errors_total\{.*\} [1-9]/m);
    service.state = "there";
    await vi.advanceTimersByTimeAsync(5_000);
    expect(service.stored).toEqual([1, 2, 3]);
  },
);

test("a broken disk has no effect while the service answers", async () => {
  await start();
  for (const operation of ["create", "write", "datasync"] as const) disk.failing.set(operation, "EIO");
  await durable(record());
  recorder.assertReady();
});

test("entries acknowledged by the disk survive a power loss", async () => {
  await startAway();
  for (let index = 0; index < 10; index += 1) await durable(record());
  disk.crash();
  const sizes = [...disk.files.values()].map(({ bytes }) => bytes.length);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(10 * 100);
});

test("unreadable entries on the disk do not block later ones", async () => {
  await startAway();
  for (let index = 0; index < 5; index += 1) await durable(record());
  const [content] = disk.files.values();
  if (content === undefined) throw new Error("no file");
  content.bytes[content.bytes.length - 3] = (content.bytes[content.bytes.length - 3] ?? 0) ^ 1;
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  await durable(record());
  expect(service.stored).toEqual([1, 2, 3, 4, 5, 7]);
});

test("read errors cost only the entries on bad blocks", async () => {
  await startAway();
  for (let index = 0; index < 120; index += 1) await durable(record());
  expect(disk.files.size).toBeGreaterThan(1);
  const [first = ""] = disk.files.keys();
  disk.badBytes.set(first, [5_000]);
  service.state = "there";
  await vi.advanceTimersByTimeAsync(10_000);
  await durable(record());
  const lost = 122 - service.stored.length;
  expect(lost).toBeGreaterThan(0);
  expect(lost).toBeLessThan(40); // those of one block
  expect(service.stored).toEqual(service.stored.toSorted((a, b) => a - b));
  expect([service.stored[0], service.stored.at(-1)]).toEqual([1, 122]);
  expect([...disk.files.keys()].filter((path) => path.endsWith(".damaged"))).toHaveLength(1);
  await expect(metrics.render()).resolves.toMatch(/^gatehouse_audit_queued_entries\{.*\} 0$/m);
});

test("an intent is accepted only with room for its outcome", async () => {
  const outcomeBytes = FILE_HEADER_BYTES + 600; // of the first outcome, which startAway has written
  await startAway({ maxBytes: FILE_HEADER_BYTES + outcomeBytes + recordBytes(MAX_ENTRY_BYTES) / 2 });
  await expect(record()).rejects.toMatchObject({ code: "audit_unavailable" });
});

test("close also waits for entries on the disk while audit-service accepts them", async () => {
  await startAway();
  for (let index = 0; index < 300; index += 1) await durable(record());
  service.state = "there";
  const closed = outcomeOf(recorder.close(20_000));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(closed.state).toBe("resolved");
  expect(service.stored).toHaveLength(301);
  expect(disk.files.size).toBe(0);
});

test("close leaves unacknowledged entries on the disk", async () => {
  await start();
  service.state = "silent";
  const settled = outcomeOf(record());
  recorder.enqueue(sampleOutcome());
  const closed = outcomeOf(recorder.close(100));
  await vi.advanceTimersByTimeAsync(200);
  expect([closed.state, settled.state]).toEqual(["resolved", "resolved"]);
  expect(disk.files.size).toBe(1);
});

test("close retries a disk that has just failed", async () => {
  await start();
  disk.failing.set("create", "EIO");
  service.state = "silent";
  recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 100);
  expect(spoolLines).toEqual([[50, expect.stringContaining("cannot be written")]]);
  disk.failing.clear();
  const closed = outcomeOf(recorder.close(0));
  await vi.advanceTimersByTimeAsync(10);
  expect([closed.state, disk.files.size]).toEqual(["resolved", 1]);
});

test("spooled and drained entries are counted", async () => {
  await startAway();
  await durable(record());
  service.state = "there";
  await vi.advanceTimersByTimeAsync(2_000);
  const text = await metrics.render();
  expect(text).toMatch(/^gatehouse_audit_spooled_total\{.*\} 2$/m);
  expect(text).toMatch(/^gatehouse_audit_spool_drained_total\{.*\} 2$/m);
  expect(text).toMatch(/^gatehouse_audit_queued_entries\{.*\} 0$/m);
});

interface Options {
  maxBytes?: number;
  maxQueuedEntries?: number;
  reservedForOutcomes?: number;
}

async function start(options: Options = {}): Promise<void> {
  const { maxBytes = MAX_BYTES, maxQueuedEntries = 10_000, reservedForOutcomes = 1_000 } = options;
  let entries = 0;
  metrics = createMetrics("test");
  spool = new Spool({
    files: disk,
    directory: "/spool",
    damagedDirectory: "/spool/.damaged",
    producerId: PRODUCER,
    maxBytes,
    bytesOfOthers: () => othersBytes,
    onDamage: () => undefined,
    segmentBytes: 20_000,
  });
  recorder = new Recorder({
    openStream,
    onStall: () => undefined,
    spool,
    producerId: PRODUCER,
    newEntryId: () => `entry-${++entries}`,
    random: () => 1,
    limits: {
      maxQueuedEntries,
      reservedForOutcomes,
      stallTimeoutMs: 2_000,
      unreadyAfterMs: 1_000,
      spoolAfterMs: SPOOL_AFTER_MS,
    },
    logger: pino({ level: "info" }, { write: noteSpoolLine }),
    metrics: createRecorderMetrics(metrics, () => recorder.queuedEntries),
  });
  await vi.advanceTimersByTimeAsync(10);
}

function noteSpoolLine(line: string): void {
  const { level, msg } = JSON.parse(line) as { level: number; msg: string };
  if (msg.includes("spool")) spoolLines.push([level, msg]);
}

/** As `start`, with the service away and an outcome on the disk. */
async function startAway(options: Options = {}): Promise<void> {
  service.state = "away";
  await start(options);
  recorder.enqueue(sampleOutcome());
  await vi.advanceTimersByTimeAsync(SPOOL_AFTER_MS + 60);
}

function openStream(handlers: RecordStreamHandlers) {
  const stream = { handlers, isOver: false, last: 0, sent: [] as number[] };
  streams.push(stream);
  if (service.state === "away") setTimeout(() => end(stream), 1);
  return {
    send(request: RecordRequest) {
      stream.sent.push(...request.entries.map(({ sequence }) => sequence));
      setTimeout(() => {
        if (stream.isOver || service.state !== "there") return;
        for (const { sequence, entry } of request.entries) {
          if (stream.last > 0 && sequence !== stream.last + 1) return end(stream);
          stream.last = sequence;
          store(sequence, entry?.id ?? "");
        }
        handlers.onAcknowledged(stream.last);
      }, 2);
      return service.accepts;
    },
    cancel() {
      stream.isOver = true;
    },
  };
}

function store(sequence: number, id: string): void {
  if (service.stored.includes(sequence)) service.repeated += 1;
  else service.stored.push(sequence);
  service.ids.add(id);
}

function end(stream: { handlers: RecordStreamHandlers; isOver: boolean }): void {
  if (stream.isOver) return;
  stream.isOver = true;
  stream.handlers.onEnd(new DomainError("service_unavailable"));
}

function breakStream(): void {
  end(latest());
}

function latest() {
  const stream = streams.at(-1);
  if (stream === undefined) throw new Error("no stream was opened");
  return stream;
}

function record(): Promise<void> {
  return recorder.record(sampleIntent(), Date.now() + 1_000);
}

/** Waits with the clock running. */
async function durable(promise: Promise<void>): Promise<void> {
  const settled = outcomeOf(promise);
  for (let step = 0; step < 1_000 && settled.state === "waiting"; step += 1) {
    await vi.advanceTimersByTimeAsync(1);
  }
  await promise;
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
