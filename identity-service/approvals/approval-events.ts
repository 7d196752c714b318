import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import type { SecurityEventType } from "../audit/security-event-store.ts";
import type { Approval, PasskeyEvidence } from "./approval-store.ts";

export interface ApprovalEvent extends ClientOrigin {
  type: Extract<SecurityEventType, `approval_${string}`>;
  userId: string;
  /** Undefined if it is unknown, or of another user or session. */
  approval?: Pick<Approval, "id" | "digest"> & Partial<Pick<Approval, "method">>;
  /** Of the passkey that gave it. Its signature does not cover its key, so the log has to. */
  evidence?: PasskeyEvidence;
  errorCode?: ErrorCode;
}

/** The reason is `approval <id> <method> <digest>`, as in the entry of the call: `-` for no method. The evidence's hash may follow. */
export async function recordApproval(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  { approval, evidence, ...event }: ApprovalEvent,
  context: CallContext,
): Promise<void> {
  const reason =
    approval === undefined
      ? ""
      : `approval ${approval.id} ${approval.method ?? "-"} ${approval.digest.toString("hex")}`;
  const hash = evidence === undefined ? "" : ` ${evidenceHash(evidence)}`;
  await recordAudit(tx, deps, { ...event, reason: reason + hash }, context);
}

/** SHA-256 of the evidence as `gatehouse approvals export` writes it. @see docs/approvals.md */
function evidenceHash({ passkeyId, rpId, ...bytes }: PasskeyEvidence): string {
  const texts = Object.entries(bytes).map(([name, value]) => [name, Buffer.from(value).toString("base64")]);
  const text = canonicalize({ passkeyId, rpId, ...Object.fromEntries(texts) }) ?? "";
  return createHash("sha256").update(text).digest("hex");
}
