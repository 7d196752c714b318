import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { type AuditEntry, type AuditEvent, type AuditOutcome, MAX_LENGTH } from "./audit-entry.ts";

/** 200 entries of 1,700 units of 3 bytes fit into a message of 1 MiB. */
export const MAX_ENTRY_BYTES = Math.floor((1024 * 1024) / 200);

const MAX_HTTP_STATUS = 999;

const KINDS: Record<(AuditEntry | AuditEvent)["kind"], EntryKind> = {
  intent: EntryKind.INTENT,
  outcome: EntryKind.OUTCOME,
  event: EntryKind.EVENT,
};

const OUTCOMES: Record<AuditOutcome["outcome"], Outcome> = {
  success: Outcome.SUCCESS,
  failure: Outcome.FAILURE,
  unknown: Outcome.UNKNOWN,
};

/** Never throws, because one entry would block all later ones. */
export function toProto(entry: AuditEntry | AuditEvent, made: { id: string; occurredAt: Date }): Entry {
  const { id, occurredAt } = entry.kind === "event" ? entry : made;
  const { callId, method, route } = entry.kind === "event" ? NO_CALL : entry;
  const { actor } = entry;
  return {
    id: cut(id, MAX_LENGTH.id),
    kind: KINDS[entry.kind],
    callId: cut(callId, MAX_LENGTH.callId),
    // The encoder throws for an invalid date. audit-service uses the time of receipt.
    occurredAt: Number.isNaN(occurredAt.getTime()) ? undefined : occurredAt,
    actor: {
      userId: cut(actor.userId, MAX_LENGTH.userId),
      role: cut(actor.role, MAX_LENGTH.role),
      sessionId: cut(actor.sessionId, MAX_LENGTH.sessionId),
      claimedEmail: cut(actor.claimedEmail, MAX_LENGTH.claimedEmail),
      claimedEmailHash: "",
    },
    clientIp: cut(entry.clientIp, MAX_LENGTH.clientIp),
    userAgent: cut(entry.userAgent, MAX_LENGTH.userAgent),
    method: cut(method, MAX_LENGTH.method),
    route: cut(route, MAX_LENGTH.route),
    resource: cut(entry.resource, MAX_LENGTH.resource),
    action: cut(entry.action, MAX_LENGTH.action),
    requestId: cut(entry.requestId, MAX_LENGTH.requestId),
    traceId: cut(entry.traceId, MAX_LENGTH.traceId),
    reason: cut(entry.kind === "intent" ? undefined : entry.reason, MAX_LENGTH.reason),
    ...(entry.kind === "intent" ? NO_OUTCOME : outcomeOf(entry)),
    ...GIVEN_BY_THE_LOG,
  };
}

const GIVEN_BY_THE_LOG = { sequence: 0, receivedAt: undefined, producer: "", log: 0 };
const NO_CALL = { callId: "", method: "", route: "" };
const NO_OUTCOME = { outcome: Outcome.UNSPECIFIED, errorCode: "", httpStatus: 0, latencyUs: 0 };

function outcomeOf(entry: AuditOutcome | AuditEvent) {
  return {
    outcome: OUTCOMES[entry.outcome],
    errorCode: cut(entry.errorCode, MAX_LENGTH.errorCode),
    httpStatus: entry.kind === "event" ? 0 : count(entry.httpStatus, MAX_HTTP_STATUS),
    latencyUs: entry.kind === "event" ? 0 : count(entry.latencyUs, Number.MAX_SAFE_INTEGER),
  };
}

function cut(text = "", maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`;
}

/** The encoder throws for other numbers. */
function count(value: number, maximum: number): number {
  return Number.isFinite(value) ? Math.round(Math.min(Math.max(value, 0), maximum)) : 0;
}
