import { z } from "zod";
import { idField, nextCursorField, timeField } from "./answer-fields.ts";
import { answersWith, describeRoutes } from "./route-docs.ts";

const text = (example: string) => z.string().meta({ examples: [example] });

const actor = z
  .strictObject({
    userId: idField.optional(),
    role: text("USER").optional(),
    sessionId: idField.optional(),
    claimedEmail: text("ada@example.com").optional(),
  })
  .meta({
    description: "Who acted: from a verified token, or the address that an anonymous caller claimed.",
  });

export const auditEntryAnswer = z
  .strictObject({
    id: text("1042"),
    kind: z
      .enum(["intent", "outcome", "event"])
      .meta({ description: "A call is an intent and its outcome; an event stands alone." }),
    callId: text("0199a000-0000-7000-8000-000000000003").meta({
      description: "Both entries of a call have it.",
    }),
    occurredAt: timeField,
    actor,
    clientIp: text("192.0.2.7"),
    userAgent: text("Mozilla/5.0"),
    method: text("POST"),
    route: text("/auth/login"),
    resource: text("0199a000-0000-7000-8000-000000000001"),
    action: text("auth.login"),
    requestId: text("0199a000-0000-7000-8000-000000000004"),
    traceId: text("4bf92f3577b34da6a3ce929d0e0e4736"),
    outcome: z.enum(["success", "failure", "unknown"]).optional(),
    errorCode: text("invalid_credentials").optional(),
    httpStatus: z
      .int()
      .optional()
      .meta({ examples: [200] }),
    latencyUs: z
      .int()
      .optional()
      .meta({ description: "Microseconds.", examples: [41_250] }),
    reason: text("wrong_password").optional(),
  })
  .meta({ id: "AuditEntry" });

export const auditDocs = describeRoutes("Audit log", {
  searchAuditLog: {
    summary: "Search the audit log",
    description: "`from` is inclusive, `to` exclusive.",
    answers: answersWith(
      "A page of entries, newest first.",
      z.strictObject({ entries: z.array(auditEntryAnswer), nextCursor: nextCursorField }),
    ),
  },
});
