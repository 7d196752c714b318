import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { checkMfaCode, type MfaMethod, refuseWrongCode } from "../mfa/check-mfa-code.ts";
import type { TypedCode } from "../mfa/mfa-deps.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { tellApproval } from "./approval-events.ts";
import {
  type Approval,
  type ApprovalKey,
  countApprovalTry,
  findApproval,
  giveApproval,
} from "./approval-store.ts";
import { approvalTokenHash } from "./approval-token.ts";
import type { ApprovalDeps } from "./ask-approval.ts";

const MAX_TRIES = 5;

export interface ApprovalAttempt extends TypedCode {
  userId: string;
  sessionId: string;
  token: string;
}

interface GivenApproval {
  approvalId: string;
  method: MfaMethod;
  expiresInS: number;
}

/** Wrong codes count as at a login. @throws {DomainError} `mfa_code_invalid`, `approval_mismatch`, `approval_expired`, `approval_used`. */
export async function verifyApproval(
  deps: ApprovalDeps,
  attempt: ApprovalAttempt,
  context: CallContext,
): Promise<GivenApproval> {
  const { userId, sessionId } = attempt;
  const tokenHash = approvalTokenHash(attempt.token);
  if (tokenHash === undefined) throw new DomainError("approval_mismatch");
  const key = { tokenHash, userId, sessionId };
  const given = await transaction(deps.sql, (tx) => give(tx, deps, key, attempt, context));
  // After the commit, so that the attempt counts.
  if (given === undefined) refuseWrongCode(deps);
  if (given.method === "recovery_code") deps.wakeMailWorker();
  return given;
}

/** Undefined for a wrong code. */
async function give(
  tx: TransactionSql,
  deps: ApprovalDeps,
  key: ApprovalKey,
  attempt: ApprovalAttempt,
  context: CallContext,
): Promise<GivenApproval | undefined> {
  const user = await lockAccountForMfa(tx, key.userId);
  if (user?.status !== "active") throw new DomainError("approval_mismatch");
  const now = deps.now();
  const approval = await countApprovalTry(tx, key, { now, maxTries: MAX_TRIES });
  if (approval === undefined) throw new DomainError(endOf(await findApproval(tx, key)));
  const { clientIp, userAgent } = attempt;
  const event = { userId: user.id, clientIp, userAgent };
  // A code never reaches level 3.
  const method =
    approval.acr === 2 ? await checkMfaCode(tx, deps, user, attempt, "session", context) : undefined;
  if (method === undefined) {
    const refused = { ...event, approval, type: "approval_refused", errorCode: "mfa_code_invalid" } as const;
    await tellApproval(tx, deps, refused, context);
    return undefined;
  }
  await giveApproval(tx, approval.id, { method, now });
  const given = { ...approval, method };
  await tellApproval(tx, deps, { ...event, approval: given, type: "approval_given" }, context);
  const expiresInS = Math.floor((approval.expiresAt.getTime() - now.getTime()) / 1_000);
  return { approvalId: approval.id, method, expiresInS };
}

function endOf(approval: Approval | undefined) {
  if (approval === undefined) return "approval_mismatch";
  return approval.method === null ? "approval_expired" : "approval_used";
}
