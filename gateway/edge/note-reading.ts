import type { FastifyRequest } from "fastify";
import type { AuditEventRecorder } from "#audit-client/stream/audit-entry.ts";
import type { Reading } from "#audit-client/stream/record-reading.ts";
import { auditedCall } from "./audit.ts";
import { maskSecrets } from "./mask-secrets.ts";

/** Rejects with `audit_unavailable`. */
export type NoteReading = (request: FastifyRequest, reading: Omit<Reading, "resource">) => Promise<void>;

export function createNoteReading(
  recorder: Pick<AuditEventRecorder, "recordEvent">,
  now: () => Date,
): NoteReading {
  return async (request, { action, filter, address }) => {
    const { callId, actor, clientIp, userAgent, resource, requestId, traceId } = auditedCall(request, action);
    await recorder.recordEvent(
      {
        kind: "event",
        id: callId,
        occurredAt: now(),
        actor: { ...actor, ...(address !== undefined && { claimedEmail: address }) },
        action,
        resource,
        clientIp,
        userAgent,
        ...(filter !== undefined && { reason: maskSecrets(filter) }),
        requestId,
        traceId,
        outcome: "success",
      },
      request.state.call.deadlineMs,
    );
  };
}
