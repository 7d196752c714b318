import { v7 as uuidv7 } from "uuid";
import type { TransactionSql } from "#kit/database/postgres.ts";
import { insertSecurityEvent } from "../events/security-event-store.ts";

export interface RevocationCause {
  /** `operator:ada`. */
  person?: string | undefined;
  requestId: string;
  traceId: string;
}

export async function insertRevocationEvent(
  tx: TransactionSql,
  type: "session_revoked" | "all_sessions_revoked",
  facts: RevocationCause & { userId?: string; sessionId?: string; reason: string },
  now: Date,
): Promise<void> {
  await insertSecurityEvent(tx, {
    id: uuidv7(),
    type,
    userId: facts.userId ?? null,
    sessionId: facts.sessionId ?? null,
    keyId: null,
    reason: facts.reason,
    person: facts.person,
    ip: "",
    userAgent: "",
    requestId: facts.requestId,
    traceId: facts.traceId,
    occurredAt: now,
  });
}
