import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { recordApproval } from "./approval-events.ts";
import { findOwnApproval, markRefused } from "./approval-store.ts";
import type { ApprovalDeps } from "./ask-approval.ts";

export interface RefuseApproval extends ClientOrigin {
  userId: string;
  approvalId: string;
}

/**
 * Any session of the user may refuse it, also one that was given. The session that has asked may not be the user's own.
 * @throws {DomainError} `not_found`, `approval_used`, `approval_expired` (also refused before).
 */
export async function refuseApproval(
  deps: Pick<ApprovalDeps, "sql" | "now" | "newId">,
  { userId, approvalId: id, clientIp, userAgent }: RefuseApproval,
  context: CallContext,
): Promise<void> {
  if (!isUuid(id)) throw new DomainError("not_found");
  await transaction(deps.sql, async (tx) => {
    const refused = await markRefused(tx, { id, userId }, deps.now());
    if (refused !== undefined) {
      const approval = { id, digest: refused.digest, ...(refused.method && { method: refused.method }) };
      const event = { type: "approval_refused", userId, approval, clientIp, userAgent } as const;
      return recordApproval(tx, deps, event, context);
    }
    const found = await findOwnApproval(tx, { id, userId });
    if (found === undefined) throw new DomainError("not_found");
    throw new DomainError(found.usedAt === null ? "approval_expired" : "approval_used");
  });
}
