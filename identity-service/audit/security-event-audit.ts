import type { AuditEvent } from "../../audit-client/audit-entry.ts";
import { personActor } from "../../audit-client/person-actor.ts";
import type { SecurityEvent } from "./security-event-store.ts";

/** The action is `user.<type>`, and the resource is the account. */
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
