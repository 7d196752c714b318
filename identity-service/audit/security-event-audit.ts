import type { AuditEvent } from "../../audit-client/audit-entry.ts";
import { personActor } from "../../audit-client/person-actor.ts";
import type { SecurityEvent } from "./security-event-store.ts";

/** A security event as the audit log has it: `user.<type>`, with the account as what was acted on. */
export function toAuditEvent(event: SecurityEvent): AuditEvent {
  const { id, type, userId, actorId, person, actorRole, sessionId, reason, errorCode, ip, userAgent } = event;
  const { requestId, traceId, occurredAt } = event;
  return {
    kind: "event",
    id,
    occurredAt,
    actor:
      person === null
        ? {
            ...(actorId && { userId: actorId }),
            ...(actorRole && { role: actorRole }),
            ...(sessionId && { sessionId }),
          }
        : personActor(person),
    clientIp: ip,
    userAgent,
    resource: userId,
    action: `user.${type}`,
    ...(reason !== "" && { reason }),
    requestId,
    traceId,
    ...(errorCode === null ? { outcome: "success" } : { outcome: "failure", errorCode }),
  };
}
