import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { sampleIntent } from "../stream/entry.fixture.ts";
import type { RecordStreamHandlers } from "../stream/record-stream.ts";
import { toProto } from "../stream/to-proto.ts";
import { FaultyDisk } from "./faulty-disk.fixture.ts";
import { resendRun } from "./resend-run.ts";
import type { FormerRun } from "./spool-directory.ts";
import { encodeFileHeader, encodeRecord } from "./spool-record.ts";
import { recoverSegment } from "./spool-segment.ts";

const FORMER = "7d8f4f0e-6f0a-4c56-9a0e-0d6a3f5d2b11";

let streams: { requests: RecordRequest[]; isCancelled: boolean }[];
/** What happens to a message: the number of messages before it, and how to answer. */
let onMessage: (count: number, last: number, handlers: RecordStreamHandlers) => void;
let abort: AbortController;
let damages: unknown[];
let disk: FaultyDisk;

beforeEach(() => {
  vi.useFakeTimers();
  streams = [];
  damages = [];
  disk = new FaultyDisk();
  abort = new AbortController();
  onMessage = (_count, last, handlers) => handlers.onAcknowledged(last);
});

afterEach(() => {
  vi.useRealTimers();
});

test("entries keep the former producer's id and sequences, and are sent in messages of at most 200, one at a time", async () => {
  await resend(await runOf([1, 450]));
  const { requests = [] } = streams[0] ?? {};
  expect(requests.map(({ entries }) => entries.length)).toEqual([200, 200, 50]);
  expect(new Set(requests.map(({ producerId }) => producerId))).toEqual(new Set([FORMER]));
  expect(sent(requests)).toEqual(numbers(1, 450));
  expect(requests[0]?.entries[0]?.entry?.id).toBe("entry-1");
  expect(streams[0]?.isCancelled).toBe(true);
});

test("files that overlap after a partial write are sent as one sequence", async () => {
  await resend(await runOf([5, 9], [8, 12]));
  expect(sent(streams[0]?.requests ?? [])).toEqual(numbers(5, 12));
  expect(damages).toEqual([]);
});

test("nothing is sent of a file whose entries were all in the previous one", async () => {
  await resend(await runOf([1, 9], [5, 8], [10, 12]));
  expect(streams.map(({ requests }) => requests.map((request) => sent([request])))).toEqual([
    [numbers(1, 9), numbers(10, 12)],
  ]);
});

test("a stream that ends without an error is reopened", async () => {
  onMessage = (count, last, handlers) => {
    if (count === 0) handlers.onEnd(undefined);
    else handlers.onAcknowledged(last);
  };
  expect(await resend(await runOf([1, 3]))).toBe(3);
  expect(streams).toHaveLength(2);
});

test("a permanent refusal is thrown, and the entries are not sent again", async () => {
  onMessage = (_count, _last, handlers) => handlers.onEnd(new DomainError("validation_failed"));
  await expect(resend(await runOf([1, 3]))).rejects.toMatchObject({ code: "validation_failed" });
  expect(streams.map(({ isCancelled }) => isCancelled)).toEqual([true]);
});

test("the delay between attempts grows to half a second", async () => {
  onMessage = (_count, _last, handlers) => handlers.onEnd(new DomainError("service_unavailable"));
  const resent = startResend(await runOf([1, 1])).catch(() => undefined);
  await vi.advanceTimersByTimeAsync(20_000);
  // 20, 50, 100, 200 and 400 ms, then 500 ms each.
  expect(streams.length).toBeGreaterThan(40);
  expect(streams.length).toBeLessThan(46);
  abort.abort(new Error("enough"));
  await resent;
});

test("each message has its own timeout of 5 s", async () => {
  onMessage = (_count, last, handlers) => void setTimeout(() => handlers.onAcknowledged(last), 3_000);
  expect(await resend(await runOf([1, 800]))).toBe(800);
  expect(streams).toHaveLength(1);
});

test("after a failed or silent stream, everything is sent again on a new one", async () => {
  onMessage = (count, last, handlers) => {
    if (count === 1) handlers.onEnd(new DomainError("service_unavailable"));
    else if (count !== 3) handlers.onAcknowledged(last);
  };
  await resend(await runOf([1, 450]));
  expect(streams).toHaveLength(3);
  expect(sent(streams[2]?.requests ?? [])).toEqual(numbers(1, 450));
});

test("the acknowledgement of a part of a message is not enough", async () => {
  onMessage = (count, last, handlers) => {
    if (count === 0) handlers.onAcknowledged(last - 1);
    else handlers.onAcknowledged(last);
  };
  await resend(await runOf([1, 3]));
  // The first message was sent again on another stream.
  expect(streams.map(({ requests }) => sent(requests))).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ]);
});

test.each([
  [
    "a record in the middle",
    5,
    [
      [1, 2, 3, 4],
      [6, 7, 8, 9],
    ],
  ],
  ["the first record", 1, [[2, 3, 4, 5, 6, 7, 8, 9]]],
  ["the last record", 9, [[1, 2, 3, 4, 5, 6, 7, 8]]],
])(
  "damage to %s after the takeover is reported, other entries are sent, and the file is kept",
  async (_which, rotten, expected) => {
    const run = await runOf([1, 9]);
    rot("/spool/0.spool", rotten);
    const count = await resend(run);
    expect(streams.map(({ requests }) => sent(requests))).toEqual(expected);
    expect(damages).toEqual([{ fromSequence: rotten, toSequence: rotten }]);
    expect(run[0]?.isDamaged).toBe(true);
    expect(count).toBe(8);
    expect(streams.every(({ isCancelled }) => isCancelled)).toBe(true);
  },
);

test("lost entries are reported once, although the rest is sent again", async () => {
  const run = await runOf([1, 3]);
  rot("/spool/0.spool", 2);
  onMessage = (count, last, handlers) => {
    if (count === 1) handlers.onEnd(new DomainError("service_unavailable"));
    else handlers.onAcknowledged(last);
  };
  expect(await resend(run)).toBe(2);
  expect(streams).toHaveLength(4);
  expect(damages).toEqual([{ fromSequence: 2, toSequence: 2 }]);
});

test("unreadable files are skipped without a delay", async () => {
  const run = await runOf([1, 3]);
  disk.failing.set("read", "EIO");
  // A single block: bad blocks are skipped, so the run is empty.
  expect([await resend(run), await resend([])]).toEqual([0, 0]);
  expect(streams).toEqual([]);
  expect(damages).toEqual([{ fromSequence: 1, toSequence: 3 }]);
});

test("a file that became unreadable does not block the next one", async () => {
  const run = await runOf([1, 400], [401, 402]);
  const { length } = disk.files.get("/spool/0.spool")?.bytes ?? [];
  disk.badBytes.set(
    "/spool/0.spool",
    Array.from({ length: (length ?? 0) / 512 }, (_, index) => index * 512),
  );
  await resend(run);
  expect(streams.map(({ requests }) => sent(requests))).toEqual([[401, 402]]);
  expect(damages).toEqual([{ fromSequence: 1, toSequence: 400 }]);
});

test("an abort ends it at once", async () => {
  onMessage = () => undefined;
  let failure: unknown;
  startResend(await runOf([1, 3])).catch((error: unknown) => {
    failure = error;
  });
  await vi.advanceTimersByTimeAsync(100);
  abort.abort(new Error("stopping"));
  await vi.advanceTimersByTimeAsync(0);
  expect(failure).toMatchObject({ message: "stopping" });
});

test("an abort ends it at once, also while an attempt fails", async () => {
  onMessage = (_count, _last, handlers) => {
    handlers.onEnd(new DomainError("service_unavailable"));
    abort.abort(new Error("stopping"));
  };
  let failure: unknown;
  startResend(await runOf([1, 1])).catch((error: unknown) => {
    failure = error;
  });
  await vi.advanceTimersByTimeAsync(10);
  expect(failure).toMatchObject({ message: "stopping" });
});

test("an abort between two attempts ends it at once, without another attempt", async () => {
  onMessage = (_count, _last, handlers) => handlers.onEnd(new DomainError("service_unavailable"));
  const run = await runOf([1, 1]);
  abort.abort(new Error("stopping"));
  await expect(resend(run)).rejects.toThrow("stopping");
  expect(streams).toEqual([]);

  abort = new AbortController();
  const resent = startResend(run);
  let failure: unknown;
  resent.catch((error: unknown) => {
    failure = error;
  });
  await vi.advanceTimersByTimeAsync(5_000);
  const { length } = streams;
  expect(length).toBeGreaterThan(5);
  abort.abort(new Error("stopping now"));
  await vi.advanceTimersByTimeAsync(0);
  expect(failure).toMatchObject({ message: "stopping now" });
  expect(streams).toHaveLength(length);
});

/** Damages an entry on disk. */
function rot(path: string, sequence: number): void {
  const content = disk.files.get(path);
  if (content === undefined) throw new Error("no file");
  content.bytes.write("X", content.bytes.indexOf(`entry-${sequence}`), "latin1");
}

async function resend(run: FormerRun): Promise<number> {
  const resent = startResend(run);
  resent.catch(() => undefined);
  await vi.advanceTimersByTimeAsync(20_000);
  return resent;
}

function startResend(run: FormerRun): Promise<number> {
  let messages = 0;
  const openStream = (handlers: RecordStreamHandlers) => {
    const stream = { requests: [] as RecordRequest[], isCancelled: false };
    streams.push(stream);
    return {
      send(request: RecordRequest) {
        if (stream.isCancelled) throw new Error("sent over a stream that was given up");
        stream.requests.push(request);
        const count = messages++;
        setTimeout(() => onMessage(count, request.entries.at(-1)?.sequence ?? 0, handlers), 1);
        return true;
      },
      cancel() {
        stream.isCancelled = true;
      },
    };
  };
  return resendRun(
    { openStream, random: () => 1, signal: abort.signal, onDamage: (_path, lost) => void damages.push(lost) },
    run,
  );
}

/** A file for each range. */
async function runOf(...ranges: (readonly [number, number])[]): Promise<FormerRun> {
  const run: FormerRun = [];
  for (const [index, [first, last]] of ranges.entries()) {
    const file = await disk.create(`/spool/${index}.spool`);
    const records = numbers(first, last).map((sequence) =>
      encodeRecord({ sequence, entry: Entry.encode(entryOf(sequence)).finish() }),
    );
    await file.write(Buffer.concat([encodeFileHeader(FORMER), ...records]), 0);
    const { segment } = await recoverSegment(`/spool/${index}.spool`, file);
    if (segment !== undefined) run.push(segment);
  }
  return run;
}

function entryOf(sequence: number): Entry {
  return toProto(sampleIntent(), { id: `entry-${sequence}`, occurredAt: new Date(0) });
}

function sent(requests: readonly RecordRequest[]): number[] {
  return requests.flatMap(({ entries }) => entries.map(({ sequence }) => sequence));
}

function numbers(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}
