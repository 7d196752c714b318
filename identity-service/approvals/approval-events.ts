import type { CallContext } from "../../service-kit/call-context.ts";
import type { ErrorCode } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { SecurityEventType } from "../audit/security-event-store.ts";
import { type TellAuditDeps, tellAudit } from "../audit/tell-audit.ts";
import type { Approval } from "./approval-store.ts";

export interface ApprovalEvent extends ClientOrigin {
  type: Extract<SecurityEventType, `approval_${string}`>;
  userId: string;
  /** Undefined if it is unknown, or of another user or session. */
  approval?: Pick<Approval, "id" | "digest"> & Partial<Pick<Approval, "method">>;
  errorCode?: ErrorCode;
}

/** The reason is `approval <id> <method> <digest>`, as in the entry of the call: `-` for no method. */
export async function tellApproval(
  tx: TransactionSql,
  deps: TellAuditDeps,
  { approval, ...event }: ApprovalEvent,
  context: CallContext,
): Promise<void> {
  const reason =
    approval === undefined
      ? ""
      : `approval ${approval.id} ${approval.method ?? "-"} ${approval.digest.toString("hex")}`;
  await tellAudit(tx, deps, { ...event, reason }, context);
}
