import { z } from "zod";
import {
  EntryKind,
  type Entry as EntryMessage,
  Outcome as OutcomeMessage,
} from "#proto/gatehouse/audit/v1/entry.ts";
import { idField, timeField } from "../auth/answer-fields.ts";
import { intLike, optional, textLike } from "../routing/fields.ts";

const actor = z
  .strictObject({
    userId: textLike("0199a000-0000-7000-8000-000000000001")
      .optional()
      .meta({ description: "A user's id, or `client:`, `operator:` or `auditor:` and a name." }),
    role: textLike("USER").optional(),
    sessionId: idField.optional(),
    claimedEmail: textLike("ada@example.com").optional(),
  })
  .meta({
    description: "Who acted: from a verified token, or the address that an anonymous caller claimed.",
  });

export const outcomeField = z.enum(["success", "failure", "unknown"]);

export const auditEntryAnswer = z
  .strictObject({
    id: idField,
    kind: z
      .enum(["intent", "outcome", "event"])
      .meta({ description: "A call is an intent and its outcome; an event stands alone." }),
    callId: textLike("0199a000-0000-7000-8000-000000000003").meta({
      description: "Both entries of a call have it.",
    }),
    occurredAt: timeField,
    actor,
    clientIp: textLike("192.0.2.7"),
    userAgent: textLike("Mozilla/5.0"),
    method: textLike("POST"),
    route: textLike("/auth/login"),
    resource: textLike("0199a000-0000-7000-8000-000000000001"),
    action: textLike("auth.login"),
    requestId: textLike("0199a000-0000-7000-8000-000000000004"),
    traceId: textLike("4bf92f3577b34da6a3ce929d0e0e4736"),
    outcome: outcomeField.optional(),
    errorCode: textLike("invalid_credentials").optional(),
    httpStatus: optional(intLike(200)),
    latencyUs: optional(intLike(41_250, "Microseconds.")),
    reason: textLike("wrong_password").optional(),
    sequence: z
      .int()
      .nullable()
      .meta({ description: "Its place in the log, from 1; null while it has none yet.", examples: [1042] }),
    receivedAt: timeField.meta({ description: "By the log's clock." }),
    producer: textLike("gateway").meta({ description: "The service that sent it." }),
    log: intLike(0, "The log it is in, in which `sequence` counts."),
  })
  .meta({ id: "AuditEntry" });

export const OUTCOMES: Record<z.output<typeof outcomeField>, OutcomeMessage> = {
  success: OutcomeMessage.SUCCESS,
  failure: OutcomeMessage.FAILURE,
  unknown: OutcomeMessage.UNKNOWN,
};

/** @throws if the message has no entry. */
export function toAuditEntry(message: EntryMessage | undefined): z.output<typeof auditEntryAnswer> {
  if (message?.occurredAt === undefined) throw new Error("audit-service sent an entry without time");
  const { callId, occurredAt, clientIp, userAgent, method, route, resource, action } = message;
  const { id, requestId, traceId, sequence, producer, log } = message;
  const { userId = "", role = "", sessionId = "", claimedEmail = "" } = message.actor ?? {};
  const call = {
    callId,
    occurredAt: occurredAt.toISOString(),
    actor: given({ userId, role, sessionId, claimedEmail }),
    clientIp,
    userAgent,
    method,
    route,
    resource,
    action,
    requestId,
    traceId,
    sequence: sequence === 0 ? null : sequence,
    receivedAt: (message.receivedAt ?? occurredAt).toISOString(),
    producer,
    log,
  };
  if (message.kind === EntryKind.INTENT) return { id, kind: "intent", ...call };
  const { errorCode, httpStatus, latencyUs, reason } = message;
  // A later version may have further outcomes.
  const outcome = outcomeField.options.find((name) => OUTCOMES[name] === message.outcome) ?? "unknown";
  const result = { outcome, ...given({ errorCode, reason }) };
  if (message.kind === EntryKind.EVENT) return { id, kind: "event", ...call, ...result };
  return { id, kind: "outcome", ...call, ...result, httpStatus, latencyUs };
}

/** Without empty members. */
function given<T extends object>(members: T): Partial<T> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== "")) as Partial<T>;
}
