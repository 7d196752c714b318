import { v7 as uuidv7 } from "uuid";
import type { TransactionSql } from "../service-kit/postgres.ts";
import { insertSecurityEvent } from "./security-event-store.ts";

/** Why a key was changed, and in which call if it was one. */
export interface KeyEventCause {
  reason: string;
  /** The operator: `operator:ada`; absent for the service itself. */
  person?: string | undefined;
  requestId: string;
  traceId: string;
}

/** Leaves word of a change of keys for the audit log, in the change's transaction. */
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
