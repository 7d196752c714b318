import type { AuditServiceServer, RecordRequest } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import type { Callers, Implementation } from "../service-kit/rpc-server.ts";
import { cleanEntry } from "./clean-entry.ts";
import type { ProducedEntry } from "./entry.ts";
import { emptyWireEntry, fromWireEntry } from "./entry-rpc.ts";
import { mapInOrder } from "./map-in-order.ts";
import { createProducerOrder } from "./producer-order.ts";
import type { EntryRecorder } from "./record-entries.ts";
import { untilAborted } from "./until-aborted.ts";

export const AUDIT_CALLERS: Callers<AuditServiceServer> = {
  record: ["gateway", "identity-service", "token-service"],
};

/** Messages of one stream that may be under way at once. */
const MAX_MESSAGES_UNDER_WAY = 16;

interface Deps {
  recorder: EntryRecorder;
  now: () => Date;
}

/**
 * Adapts AuditService. Every message is answered once it and all before it are committed; one without entries is
 * answered too, which tells a producer that somebody listens.
 */
export function createAuditRpc(deps: Deps): Implementation<AuditServiceServer> {
  return {
    async *record(requests, { caller, signal }) {
      const order = createProducerOrder();
      yield* mapInOrder(admit(deps, requests, signal), MAX_MESSAGES_UNDER_WAY, async (request) => {
        const acknowledgedSequence = order.accept(request);
        await deps.recorder.record(producedEntries(request, caller, deps.now()));
        return { acknowledgedSequence };
      });
    },
  };
}

/** Reads no further while the queue is full: the producer then has to wait. */
async function* admit({ recorder }: Deps, requests: AsyncIterable<RecordRequest>, signal: AbortSignal) {
  for await (const request of untilAborted(requests, signal)) {
    await recorder.room();
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
