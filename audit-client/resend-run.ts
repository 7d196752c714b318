import type { RecordRequest } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import { Entry } from "../proto/gen/gatehouse/audit/v1/entry.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { retryDelayMs } from "./retry-delay.ts";
import type { FormerRun } from "./spool-directory.ts";
import { FILE_HEADER_BYTES, type SpoolRecord } from "./spool-record.ts";
import { type LostEntries, readRecords, type SpoolSegment } from "./spool-segment.ts";

export interface ResendDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** 0 to 1. */
  random: () => number;
  /** Gives up. What was not acknowledged stays on the disk. */
  signal: AbortSignal;
  /** Called when entries that were whole when their file was taken over cannot be read any more. */
  onDamage: (path: string, lost: LostEntries) => void;
}

const MAX_BATCH_ENTRIES = 200;
const ANSWER_TIMEOUT_MS = 5_000;

/**
 * Sends what a former process has left, under that process' own producer id and numbers, until all of it is
 * acknowledged. What audit-service has already is stored once. One batch at a time: nobody waits for it.
 *
 * @returns how many entries were sent. What cannot be read is left out, and its segment marked as damaged.
 * @throws what audit-service refuses for good, or the reason of `signal`.
 */
export async function resendRun(deps: ResendDeps, run: FormerRun): Promise<number> {
  for (let failures = 1; ; failures += 1) {
    deps.signal.throwIfAborted();
    try {
      return await sendOnce(deps, run);
    } catch (error) {
      if (!(error instanceof DomainError) || !isPassing(error)) throw error;
    }
    await pause(retryDelayMs(failures, deps.random()), deps.signal);
  }
}

async function sendOnce(deps: ResendDeps, run: FormerRun): Promise<number> {
  let sender: Sender | undefined;
  let sent = 0;
  let next: number | undefined;
  try {
    for await (const batch of batchesOf(run, deps.onDamage)) {
      // Numbers of one stream count up by 1: what follows on a gap goes over another one.
      if (batch.entries[0]?.sequence !== next) sender?.close();
      if (batch.entries[0]?.sequence !== next || sender === undefined) sender = openSender(deps);
      await sender.send(batch);
      sent += batch.entries.length;
      next = (batch.entries.at(-1)?.sequence ?? 0) + 1;
    }
  } finally {
    sender?.close();
  }
  return sent;
}

interface Sender {
  /** Resolves when the whole batch is acknowledged. */
  send(batch: RecordRequest): Promise<void>;
  close(): void;
}

function openSender({ openStream, signal }: ResendDeps): Sender {
  const over = Promise.withResolvers<never>();
  // It may be rejected while no batch waits for it: unhandled, it would end the process.
  over.promise.catch(() => undefined);
  let acknowledged = 0;
  let onAnswer: () => void = () => undefined;
  const stream = openStream({
    onAcknowledged(sequence) {
      acknowledged = sequence;
      onAnswer();
    },
    onDrain: () => undefined, // one batch at a time is never too much
    onEnd: (error) => over.reject(error ?? unavailable("The stream has ended")),
  });
  const giveUp = () => over.reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  return {
    async send(batch) {
      const last = batch.entries.at(-1)?.sequence ?? 0;
      const late = setTimeout(() => over.reject(unavailable("The stream gave no answer")), ANSWER_TIMEOUT_MS);
      const answered = new Promise<void>((resolve) => {
        onAnswer = () => acknowledged >= last && resolve();
      });
      stream.send(batch);
      await Promise.race([answered, over.promise]).finally(() => clearTimeout(late));
    },
    close() {
      signal.removeEventListener("abort", giveUp);
      stream.cancel();
    },
  };
}

/** What audit-service refuses now it refuses again: an operator must hear of it, and the next run goes on. */
function isPassing({ code }: DomainError): boolean {
  return code === "service_unavailable" || code === "audit_unavailable";
}

/** Ends early, without an error, when the signal comes. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms).unref();
    signal.addEventListener("abort", end, { once: true });
  });
}

function unavailable(message: string): DomainError {
  return new DomainError("audit_unavailable", message);
}

/**
 * Messages as they are sent: sequences without repetition, though files may overlap after a failed write, and without a
 * gap within a message.
 */
async function* batchesOf(run: FormerRun, onDamage: ResendDeps["onDamage"]): AsyncGenerator<RecordRequest> {
  let next = run[0]?.firstSequence ?? 1;
  for (const segment of run) {
    for await (const records of recordsOf(segment)) {
      const unsent = records.filter(({ sequence }) => sequence >= next);
      const first = unsent[0]?.sequence;
      if (first === undefined) continue;
      if (first > next) tellDamage(segment, { fromSequence: next, toSequence: first - 1 }, onDamage);
      next = first + unsent.length;
      yield { producerId: segment.producerId, entries: unsent.map(toSequenced) };
    }
    if (next > segment.lastSequence) continue;
    tellDamage(segment, { fromSequence: next, toSequence: segment.lastSequence }, onDamage);
    next = segment.lastSequence + 1;
  }
}

/** What can be read of a file. */
async function* recordsOf(segment: SpoolSegment): AsyncGenerator<SpoolRecord[]> {
  let from = FILE_HEADER_BYTES;
  for (;;) {
    // A disk that fails must not keep back what is whole in the next file.
    const read = await readRecords(segment, { from, to: segment.bytes }, MAX_BATCH_ENTRIES).catch(
      () => undefined,
    );
    if (read === undefined || read.records.length === 0) return;
    from = read.nextPosition;
    yield read.records;
  }
}

/** What was found when the file was taken over was told then. */
function tellDamage(segment: SpoolSegment, lost: LostEntries, onDamage: ResendDeps["onDamage"]): void {
  if (segment.isDamaged !== true) onDamage(segment.path, lost);
  segment.isDamaged = true;
}

export function toSequenced({ sequence, entry }: SpoolRecord) {
  return { sequence, entry: Entry.decode(entry) };
}
