import { Entry } from "../proto/gen/gatehouse/audit/v1/entry.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { retryDelayMs } from "./retry-delay.ts";
import type { FormerRun } from "./spool-directory.ts";
import { FILE_HEADER_BYTES, type SpoolRecord } from "./spool-record.ts";
import { readRecords } from "./spool-segment.ts";

export interface ResendDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** 0 to 1. */
  random: () => number;
  /** Gives up. What was not acknowledged stays on the disk. */
  signal: AbortSignal;
}

const MAX_BATCH_ENTRIES = 200;
const ANSWER_TIMEOUT_MS = 5_000;

/**
 * Sends what a former process has left, under that process' own producer id and numbers, until all of it is
 * acknowledged. What audit-service has already is stored once. One batch at a time: nobody waits for it.
 *
 * @throws what the file system says, what audit-service refuses for good, or the reason of `signal`.
 */
export async function resendRun(deps: ResendDeps, run: FormerRun): Promise<void> {
  for (let failures = 1; ; failures += 1) {
    deps.signal.throwIfAborted();
    try {
      await sendOnce(deps, run);
      return;
    } catch (error) {
      if (!(error instanceof DomainError) || !isPassing(error)) throw error;
    }
    await pause(retryDelayMs(failures, deps.random()), deps.signal);
  }
}

async function sendOnce({ openStream, signal }: ResendDeps, run: FormerRun): Promise<void> {
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => undefined); // it may end while nobody waits for it
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
  try {
    for await (const batch of batchesOf(run)) {
      const last = batch.entries.at(-1)?.sequence ?? 0;
      const late = setTimeout(() => over.reject(unavailable("The stream gave no answer")), ANSWER_TIMEOUT_MS);
      const answered = new Promise<void>((resolve) => {
        onAnswer = () => acknowledged >= last && resolve();
      });
      stream.send(batch);
      await Promise.race([answered, over.promise]).finally(() => clearTimeout(late));
    }
  } finally {
    signal.removeEventListener("abort", giveUp);
    stream.cancel();
  }
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

/** Messages as they are sent: sequences without gap or repetition, though files may overlap after a failed write. */
async function* batchesOf(run: FormerRun) {
  let next = run[0]?.firstSequence ?? 1;
  for (const segment of run) {
    let from = FILE_HEADER_BYTES;
    for (;;) {
      const { records, nextPosition } = await readRecords(
        segment,
        { from, to: segment.bytes },
        MAX_BATCH_ENTRIES,
      );
      if (records.length === 0) break;
      from = nextPosition;
      const unsent = records.filter(({ sequence }) => sequence >= next);
      next = Math.max(next, (records.at(-1)?.sequence ?? 0) + 1);
      if (unsent.length > 0) yield { producerId: segment.producerId, entries: unsent.map(toSequenced) };
    }
  }
}

export function toSequenced({ sequence, entry }: SpoolRecord) {
  return { sequence, entry: Entry.decode(entry) };
}
