import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { toProto } from "#audit-client/stream/to-proto.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { cleanEntry } from "../entries/clean-entry.ts";
import { fromWireEntry } from "../entries/entry-rpc.ts";
import type { EntryRecorder } from "./record-entries.ts";

interface Deps {
  recorder: Pick<EntryRecorder, "record">;
  producerId: string;
  now: () => Date;
}

export function createOwnEventRecorder({ recorder, producerId, now }: Deps) {
  let sequence = 0;
  return {
    /** @throws {DomainError} `service_unavailable`. */
    async recordEvent(event: AuditEvent, deadlineMs: number): Promise<void> {
      sequence += 1;
      const origin = { producerId, producerName: "audit-service", sequence };
      const { id, occurredAt } = event;
      const entry = fromWireEntry(toProto(event, { id, occurredAt }));
      await withinDeadline(recorder.record([cleanEntry(entry, origin, now())]), deadlineMs - now().getTime());
    },
  };
}
