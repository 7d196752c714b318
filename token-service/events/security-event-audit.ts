import type { AuditAction } from "#audit-client/stream/audit-actions.ts";
import { type AuditEvent, personActor } from "#audit-client/stream/audit-entry.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import type { SecurityEvent, SecurityEventType } from "./security-event-store.ts";

const ACTION: Record<SecurityEventType, AuditAction> = {
  refresh_reuse: "session.refresh_reused",
  signing_key_rotated: "key.rotated",
  signing_key_revoked: "key.revoked",
  session_revoked: "session.revoked",
  session_ended: "session.ended",
  session_raised: "session.raised",
  all_sessions_revoked: "session.all_revoked",
  device_bound: "session.device_bound",
  device_refused: "session.device_refused",
};

const FAILURES: Partial<Record<SecurityEventType, ErrorCode>> = {
  refresh_reuse: "refresh_token_reused",
  device_refused: "refresh_token_invalid",
};

/** Others are about a session or a key. */
const isOfUser = (type: SecurityEventType) =>
  type === "refresh_reuse" || type === "session_ended" || type === "session_raised";

export function toAuditEvent(event: SecurityEvent): AuditEvent {
  const {
    id,
    type,
    userId,
    sessionId,
    keyId,
    person,
    ip,
    userAgent,
    reason,
    requestId,
    traceId,
    occurredAt,
  } = event;
  const errorCode = FAILURES[type];
  return {
    kind: "event",
    id,
    occurredAt,
    // Who presented the token, or ended the session, is unknown here: this is the owner.
    actor:
      person == null ? { ...(userId && { userId }), ...(sessionId && { sessionId }) } : personActor(person),
    clientIp: ip,
    userAgent,
    resource: (isOfUser(type) ? userId : (sessionId ?? keyId)) ?? "",
    action: ACTION[type],
    ...(reason !== "" && {
      reason: person != null && userId !== null ? `${reason}, of user ${userId}` : reason,
    }),
    requestId,
    traceId,
    ...(errorCode === undefined ? { outcome: "success" } : { outcome: "failure", errorCode }),
  };
}
