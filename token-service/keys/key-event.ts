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

interface KeyEvent extends KeyEventCause {
  type: "signing_key_rotated" | "signing_key_revoked";
  keyId: string;
  occurredAt: Date;
}

export async function insertKeyEvent(tx: TransactionSql, event: KeyEvent): Promise<void> {
  await insertSecurityEvent(tx, {
    id: uuidv7(),
    ...event,
    userId: null,
    sessionId: null,
    ip: "",
    userAgent: "",
  });
}
