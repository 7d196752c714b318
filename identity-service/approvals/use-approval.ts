import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { approvalTokenHash } from "./approval.ts";
import { recordApproval } from "./approval-events.ts";
import {
  type Approval,
  type ApprovalUse,
  consumeApproval,
  findApproval,
  MAX_LEVEL_OF_CODES,
} from "./approval-store.ts";
import type { ApprovalDeps } from "./ask-approval.ts";

const DIGEST_BYTES = 32;
/** For repeating a call whose answer was lost. */
const REPEATABLE_MS = 10 * 60_000;

export interface UseApproval extends ClientOrigin {
  userId: string;
  sessionId: string;
  token: string;
  /** SHA-256 of the transaction that is about to be carried out. */
  digest: Uint8Array;
  /** The level that the call demands now. */
  acr: number;
  /** SHA-256. Empty without a key. */
  idempotencyHash: Uint8Array;
}

type Refusal = "approval_required" | "approval_mismatch" | "approval_expired" | "approval_used";

type Verdict =
  | { approval: Approval; isRepeated: boolean; refusal?: never }
  | { approval?: Approval | undefined; refusal: Refusal };

/** @throws {DomainError} `approval_required` if it was not given, `approval_mismatch`, `approval_expired`, `approval_used`. */
export async function useApproval(
  deps: Pick<ApprovalDeps, "sql" | "now" | "newId">,
  request: UseApproval,
  context: CallContext,
): Promise<{ approvalId: string; method: string; isRepeated: boolean }> {
  const { userId, clientIp, userAgent } = request;
  const verdict = await transaction(deps.sql, async (tx) => {
    const reached = await decide(tx, request, deps.now());
    const { approval, refusal: errorCode } = reached;
    const event = { userId, clientIp, userAgent, ...(approval && { approval }) };
    await recordApproval(
      tx,
      deps,
      errorCode === undefined
        ? { ...event, type: "approval_used" }
        : { ...event, type: "approval_refused", errorCode },
      context,
    );
    return reached;
  });
  // After the commit, so that the refusal is recorded.
  if (verdict.refusal !== undefined) throw new DomainError(verdict.refusal);
  const { approval, isRepeated } = verdict;
  return { approvalId: approval.id, method: approval.method ?? "", isRepeated };
}

async function decide(tx: TransactionSql, request: UseApproval, now: Date): Promise<Verdict> {
  const { userId, sessionId, acr, idempotencyHash } = request;
  const tokenHash = approvalTokenHash(request.token);
  const digest = Buffer.from(request.digest);
  if (tokenHash === undefined || digest.length !== DIGEST_BYTES) return { refusal: "approval_mismatch" };
  const use: ApprovalUse = {
    tokenHash,
    userId,
    sessionId,
    digest,
    acr,
    now,
    idempotencyHash: idempotencyHash.length === DIGEST_BYTES ? Buffer.from(idempotencyHash) : null,
  };
  const used = await consumeApproval(tx, use);
  if (used !== undefined) return { approval: used, isRepeated: false };
  const approval = await findApproval(tx, use);
  if (approval === undefined) return { refusal: "approval_mismatch" };
  if (!approval.digest.equals(digest)) return { approval, refusal: "approval_mismatch" };
  if (approval.usedAt !== null) {
    if (!isRepetition(approval, use)) return { approval, refusal: "approval_used" };
    return isGivenAt(approval, acr)
      ? { approval, isRepeated: true }
      : { approval, refusal: "approval_required" };
  }
  if (approval.refusedAt !== null || approval.expiresAt <= now)
    return { approval, refusal: "approval_expired" };
  return { approval, refusal: "approval_required" };
}

/** As in the statement of `consumeApproval`. */
function isGivenAt({ method }: Approval, acr: number): boolean {
  return method === "passkey" || acr <= MAX_LEVEL_OF_CODES;
}

/** The same call again: its approval was used, and its answer may have been lost. */
function isRepetition({ usedAt, idempotencyHash }: Approval, use: ApprovalUse): boolean {
  if (usedAt === null || idempotencyHash === null || use.idempotencyHash === null) return false;
  return idempotencyHash.equals(use.idempotencyHash) && use.now.getTime() - usedAt.getTime() <= REPEATABLE_MS;
}
