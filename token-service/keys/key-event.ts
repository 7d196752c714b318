import { v7 as uuidv7 } from "uuid";
import type { TransactionSql } from "#kit/database/postgres.ts";
import { insertSecurityEvent } from "../events/security-event-store.ts";

export interface KeyEventCause {
  reason: string;
  /** `operator:ada`. Absent for the service itself. */
  person?: string | undefined;
  requestId: string;
  traceId: string;
}

export async function insertKeyEvent(
  tx: TransactionSql,
  type: "signing_key_rotated" | "signing_key_revoked",
  keyId: string,
  cause: KeyEventCause,
  now: Date,
): Promise<void> {
  await insertSecurityEvent(tx, {
    id: uuidv7(),
    type,
    userId: null,
    sessionId: null,
    keyId,
    ip: "",
    userAgent: "",
    ...cause,
    occurredAt: now,
  });
}
