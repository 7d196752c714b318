import { z } from "zod";
import { idField, nextCursorField, timeField } from "../auth/answer-fields.ts";
import { answersWith, describeRoutes } from "../routing/route-docs.ts";

const text = (example: string) => z.string().meta({ examples: [example] });

const actor = z
  .strictObject({
    userId: text("0199a000-0000-7000-8000-000000000001")
      .optional()
      .meta({ description: "A user's id, or `client:`, `operator:` or `auditor:` and a name." }),
    role: text("USER").optional(),
    sessionId: idField.optional(),
    claimedEmail: text("ada@example.com").optional(),
  })
  .meta({
    description: "Who acted: from a verified token, or the address that an anonymous caller claimed.",
  });

export const auditEntryAnswer = z
  .strictObject({
    id: idField,
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
    sequence: z
      .int()
      .nullable()
      .meta({ description: "Its place in the log, from 1; null while it has none yet.", examples: [1042] }),
    receivedAt: timeField.meta({ description: "By the log's clock." }),
    producer: text("gateway").meta({ description: "The service that sent it." }),
  })
  .meta({ id: "AuditEntry" });

const HASH = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
const hash = z.string().meta({ description: "Base64.", examples: [HASH] });
const hashes = z.array(hash).meta({ description: "From the leaf up (RFC 9162, section 2.1)." });
const checkpoint = z.string().meta({
  description: "A signed note (C2SP tlog-checkpoint).",
  examples: [`gatehouse.example/audit\n1042\n${HASH}\n\n— gatehouse.example/audit AAAAAA==\n`],
});

const provenEntry = z.strictObject({
  entry: auditEntryAnswer,
  proof: z
    .strictObject({
      leafData: z
        .string()
        .meta({ description: "Canonical JSON whose hash is the leaf's.", examples: ["{}"] }),
      leafHash: hash,
      inclusionProof: hashes,
      checkpoint,
    })
    .nullable()
    .meta({ description: "Null while no checkpoint covers the entry: about a second." }),
});

export const auditDocs = describeRoutes("Audit log", {
  searchAuditLog: {
    summary: "Search the audit log",
    description:
      "`from` is inclusive, `to` exclusive. `actor` is a user's id, `client:<id>` of a service that introspects tokens, or " +
      "`operator:<name>` or `auditor:<name>` of a certificate. Each call leaves one entry, `audit.searched`, with its filter.",
    answers: answersWith(
      "A page of entries, newest first.",
      z.strictObject({ entries: z.array(auditEntryAnswer), nextCursor: nextCursorField }),
    ),
    codes: ["audit_unavailable"],
  },
  getAuditEntry: {
    summary: "Read one entry, with the proof that it is in the log",
    answers: answersWith("The entry.", provenEntry),
    codes: ["not_found", "audit_unavailable"],
  },
  getAuditCheckpoint: {
    summary: "Read the latest signed checkpoint",
    description: "404 while there is none yet.",
    answers: answersWith(
      "The checkpoint, and the key to verify it with.",
      z.strictObject({
        checkpoint,
        verifierKey: text("gatehouse.example/audit+00000000+AAAA"),
      }),
    ),
    codes: ["not_found"],
  },
  proveAuditInclusion: {
    summary: "Prove that an entry is in the log",
    description: "404 for a tree that is larger than the log.",
    answers: answersWith("The proof.", z.strictObject({ leafHash: hash, proof: hashes })),
    codes: ["not_found"],
  },
  proveAuditConsistency: {
    summary: "Prove that the log has only grown",
    description: "404 for a tree that is larger than the log.",
    answers: answersWith("The proof.", z.strictObject({ proof: hashes })),
    codes: ["not_found"],
  },
});
