import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { logOfProducer } from "#audit-client/stream/producer-id.ts";
import { filterText, type RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError, invalidField } from "#kit/values/errors.ts";
import type { AuditServiceServer, RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { cleanEntry } from "../entries/clean-entry.ts";
import type { ProducedEntry } from "../entries/entry.ts";
import { emptyWireEntry, fromWireEntry } from "../entries/entry-rpc.ts";
import type { Logs } from "../logs/logs.ts";
import { type ErasableLog, eraseClaimedEmail } from "./erase-claimed-email.ts";
import { mapInOrder } from "./map-in-order.ts";
import { createProducerOrder } from "./producer-order.ts";
import type { EntryRecorder } from "./record-entries.ts";

export const AUDIT_CALLERS: Callers<AuditServiceServer> = {
  record: ["gateway", "identity-service", "token-service", "event-service"],
  eraseClaimedEmail: ["identity-service", "operator"],
};

/** Limit per stream. */
const MAX_MESSAGES_UNDER_WAY = 16;

/** One of the logs, as writers need it. */
interface WritableLog extends ErasableLog {
  recorder: EntryRecorder;
  presence: ProducerPresence;
}

interface Deps {
  logs: Logs<WritableLog>;
  recordReading: RecordReading;
  now: () => Date;
}

/** Acknowledges messages in order, after their commit. Empty messages are heartbeats. */
export function createAuditRpc(deps: Deps): Implementation<AuditServiceServer> {
  return {
    async *record(requests, { caller, signal }) {
      const order = createProducerOrder();
      let leave: (() => void) | undefined;
      try {
        yield* mapInOrder(admit(deps, requests, signal), MAX_MESSAGES_UNDER_WAY, async (request) => {
          const acknowledgedSequence = order.accept(request);
          const log = logOf(deps, request);
          if (log === undefined) throw unknownLog(request);
          leave ??= log.presence.enter(request.producerId);
          await log.recorder.record(producedEntries(request, caller, deps.now()));
          return { acknowledgedSequence };
        });
      } finally {
        leave?.();
      }
    },
    async eraseClaimedEmail({ email }, context) {
      if (email === "" || email.length > MAX_LENGTH.claimedEmail) {
        throw invalidField("email", "out_of_range", `must have 1 to ${MAX_LENGTH.claimedEmail} characters`);
      }
      const { erasedEntries, unanswered, failure } = await eraseClaimedEmail(deps.logs, email);
      await deps.recordReading(context, {
        action: "audit.address_erased",
        filter: filterText({ erasedEntries, unanswered: unanswered.join("/") }),
      });
      if (unanswered.length > 0) throw notErased(unanswered, failure);
      return { erasedEntries };
    },
  };
}

function logOf({ logs }: Deps, { producerId }: RecordRequest): WritableLog | undefined {
  const number = logOfProducer(producerId);
  return logs.find((log) => log.number === number);
}

/** Whoever knows of a log before this replica keeps its entries, and repeats them. */
function unknownLog({ producerId }: RecordRequest): DomainError {
  const message = `Log ${logOfProducer(producerId)} is not in LOGS_FILE`;
  return new DomainError("service_unavailable", message, { retryAfterMs: 1_000 });
}

function notErased(logs: readonly number[], cause: unknown): DomainError {
  const message = `The address may not be erased from log ${logs.join(", ")} yet; repeat the call`;
  return new DomainError("service_unavailable", message, { retryAfterMs: 1_000, cause });
}

/** A full queue stops reading, which slows the producer down. */
async function* admit(deps: Deps, requests: AsyncIterable<RecordRequest>, signal: AbortSignal) {
  for await (const request of untilAborted(requests, signal)) {
    await logOf(deps, request)?.recorder.room();
    yield request;
  }
}

function producedEntries(request: RecordRequest, producerName: string, receivedAt: Date): ProducedEntry[] {
  return request.entries.map(({ sequence, entry }) =>
    cleanEntry(
      fromWireEntry(entry ?? emptyWireEntry()),
      { producerId: request.producerId, producerName, sequence },
      receivedAt,
    ),
  );
}

interface ProducerPresence {
  /** Called for each stream. Returns the function that ends its presence. */
  enter(producerId: string): () => void;
  present(): string[];
}

export function createProducerPresence(): ProducerPresence {
  const streams = new Map<string, number>();
  return {
    enter(given) {
      const producerId = given.toLowerCase();
      streams.set(producerId, (streams.get(producerId) ?? 0) + 1);
      return () => {
        const left = (streams.get(producerId) ?? 1) - 1;
        if (left > 0) streams.set(producerId, left);
        else streams.delete(producerId);
      };
    },
    present: () => [...streams.keys()],
  };
}

/** Leaving a `for await` over a call would destroy it before its status is sent. */
export async function* untilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void> {
  const iterator = source[Symbol.asyncIterator]();
  while (!signal.aborted) {
    const next = await nextOrAborted(iterator, signal);
    if (next.done) return;
    yield next.value;
  }
}

/** Racing one long-lived promise would accumulate reactions. */
function nextOrAborted<T>(
  iterator: AsyncIterator<T>,
  signal: AbortSignal,
): Promise<IteratorResult<T, undefined>> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve({ done: true, value: undefined });
    signal.addEventListener("abort", onAbort, { once: true });
    iterator
      .next()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}
