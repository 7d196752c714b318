import type { AuditEvent } from "../../audit-client/audit-entry.ts";
import { personActor } from "../../audit-client/person-actor.ts";
import type { SecurityEvent } from "./security-event-store.ts";

export function toAuditEvent(event: SecurityEvent): AuditEvent {
  const { id, type, userId, actorId, person, actorRole, sessionId, reason, errorCode, clientIp, userAgent } =
    event;
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
    clientIp,
    userAgent,
    resource: userId,
    action: `user.${type}`,
    ...(reason !== "" && { reason }),
    requestId,
    traceId,
    ...(errorCode === null ? { outcome: "success" } : { outcome: "failure", errorCode }),
  };
}
