import { DomainError } from "#kit/values/errors.ts";
import type { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { type RecordStream, type RecordStreamHandlers, retryDelayMs } from "../stream/record-stream.ts";
import type { FormerRun } from "./spool-directory.ts";
import { FILE_HEADER_BYTES, type SpoolRecord } from "./spool-record.ts";
import { type LostEntries, readRecords, type SpoolSegment } from "./spool-segment.ts";

export interface ResendDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  random: () => number;
  signal: AbortSignal;
  /** Called for entries that became unreadable after the takeover. */
  onDamage: (path: string, lost: LostEntries) => void;
}

const MAX_BATCH_ENTRIES = 200;
const ANSWER_TIMEOUT_MS = 5_000;

/** Keeps the producer id and sequences for deduplication. @throws a permanent refusal. */
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
      // Sequences of a stream are consecutive.
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
  send(batch: RecordRequest): Promise<void>;
  close(): void;
}

function openSender({ openStream, signal }: ResendDeps): Sender {
  const over = Promise.withResolvers<never>();
  // An unhandled rejection between batches would end the process.
  over.promise.catch(() => undefined);
  let acknowledged = 0;
  let onAnswer: () => void = () => undefined;
  const stream = openStream({
    onAcknowledged(sequence) {
      acknowledged = sequence;
      onAnswer();
    },
    onDrain: () => undefined,
    onEnd: (error) => over.reject(error ?? unavailable("The stream has ended")),
  });
  const giveUp = () => over.reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  return {
    async send(batch) {
      const last = batch.entries.at(-1)?.sequence ?? 0;
      const late = setTimeout(() => over.reject(unavailable("The stream did not answer")), ANSWER_TIMEOUT_MS);
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

function isPassing({ code }: DomainError): boolean {
  return code === "service_unavailable" || code === "audit_unavailable";
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  // No abort event would follow, and the unreferenced timer would not keep the process alive.
  if (signal.aborted) return Promise.resolve();
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

/** Files may overlap after a failed write. */
async function* batchesOf(run: FormerRun, onDamage: ResendDeps["onDamage"]): AsyncGenerator<RecordRequest> {
  let next = run[0]?.firstSequence ?? 1;
  for (const segment of run) {
    for await (const records of recordsOf(segment)) {
      const unsent = records.filter(({ sequence }) => sequence >= next);
      const first = unsent[0]?.sequence;
      if (first === undefined) continue;
      if (first > next) reportDamage(segment, { fromSequence: next, toSequence: first - 1 }, onDamage);
      next = first + unsent.length;
      yield { producerId: segment.producerId, entries: unsent.map(toSequenced) };
    }
    if (next > segment.lastSequence) continue;
    reportDamage(segment, { fromSequence: next, toSequence: segment.lastSequence }, onDamage);
    next = segment.lastSequence + 1;
  }
}

async function* recordsOf(segment: SpoolSegment): AsyncGenerator<SpoolRecord[]> {
  let from = FILE_HEADER_BYTES;
  for (;;) {
    const read = await readRecords(segment, { from, to: segment.bytes }, MAX_BATCH_ENTRIES).catch(
      () => undefined,
    );
    if (read === undefined || read.records.length === 0) return;
    from = read.nextPosition;
    yield read.records;
  }
}

/** The takeover has reported earlier damage. */
function reportDamage(segment: SpoolSegment, lost: LostEntries, onDamage: ResendDeps["onDamage"]): void {
  if (segment.isDamaged !== true) onDamage(segment.path, lost);
  segment.isDamaged = true;
}

export function toSequenced({ sequence, entry }: SpoolRecord) {
  return { sequence, entry: Entry.decode(entry) };
}
