import { type AuditEvent, personActor } from "#audit-client/stream/audit-entry.ts";
import type { SecurityEvent, SecurityEventType } from "./security-event-store.ts";

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
    action: actionOf(type),
    ...(reason !== "" && { reason }),
    requestId,
    traceId,
    ...(errorCode === null ? { outcome: "success" } : { outcome: "failure", errorCode }),
  };
}

const OF_CLIENT = "client_";

function actionOf(type: SecurityEventType): string {
  return type.startsWith(OF_CLIENT) ? `client.${type.slice(OF_CLIENT.length)}` : `user.${type}`;
}
