import { validate as isUuid } from "uuid";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { checkMfaCode, refuseWrongCode, type TypedCode } from "../mfa/check-mfa-code.ts";
import type { SecondFactor } from "../mfa/second-factors.ts";
import { challengeOf, finishPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import type { Assertion } from "../passkeys/verify-assertion.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { approvalChallenge, approvalTokenHash, MAX_TRIES } from "./approval.ts";
import { recordApproval } from "./approval-events.ts";
import {
  type Approval,
  type ApprovalKey,
  countApprovalTry,
  findApproval,
  giveApproval,
  type PasskeyEvidence,
} from "./approval-store.ts";
import type { ApprovalDeps } from "./ask-approval.ts";

export interface ApprovalAttempt extends TypedCode {
  userId: string;
  sessionId: string;
  token: string;
  /** In place of the token, which is ignored then. */
  approvalId?: string | undefined;
  /** In place of the code, which is ignored then. */
  passkey?: Assertion | undefined;
}

interface GivenApproval {
  approvalId: string;
  method: SecondFactor;
  expiresInS: number;
}

/** Wrong codes count as at a login. @throws {DomainError} `mfa_code_invalid`, `passkey_invalid`, `approval_mismatch`, `approval_expired`, `approval_used`. */
export async function verifyApproval(
  deps: ApprovalDeps,
  attempt: ApprovalAttempt,
  context: CallContext,
): Promise<GivenApproval> {
  const key = keyOf(attempt);
  if (key === undefined) throw new DomainError("approval_mismatch");
  const given = await transaction(deps.sql, (tx) => give(tx, deps, { key, attempt }, context));
  // After the commit, so that the attempt counts.
  if (given === undefined && attempt.passkey === undefined) refuseWrongCode(deps);
  if (given === undefined) {
    // A notice may be due.
    deps.wakeMailWorker();
    throw new DomainError("passkey_invalid");
  }
  if (given.method === "recovery_code") deps.wakeMailWorker();
  return given;
}

/** Undefined for an invalid format. */
function keyOf({ userId, sessionId, approvalId, token }: ApprovalAttempt): ApprovalKey | undefined {
  if (approvalId !== undefined) return isUuid(approvalId) ? { id: approvalId, userId, sessionId } : undefined;
  const tokenHash = approvalTokenHash(token);
  return tokenHash && { tokenHash, userId, sessionId };
}

/** Undefined for a wrong proof. */
async function give(
  tx: TransactionSql,
  deps: ApprovalDeps,
  { key, attempt }: { key: ApprovalKey; attempt: ApprovalAttempt },
  context: CallContext,
): Promise<GivenApproval | undefined> {
  const user = await lockAccountForMfa(tx, key.userId);
  if (user?.status !== "active") throw new DomainError("approval_mismatch");
  const now = deps.now();
  const approval = await countApprovalTry(tx, key, { now, maxTries: MAX_TRIES });
  if (approval === undefined) throw new DomainError(endOf(await findApproval(tx, key)));
  const { clientIp, userAgent } = attempt;
  const event = { userId: user.id, clientIp, userAgent };
  const proof = await prove(tx, deps, { user, approval, attempt }, context);
  if (proof === undefined) {
    const errorCode = attempt.passkey === undefined ? "mfa_code_invalid" : "passkey_invalid";
    await recordApproval(tx, deps, { ...event, approval, type: "approval_refused", errorCode }, context);
    return undefined;
  }
  const { method, evidence } = proof;
  await giveApproval(tx, approval.id, { ...proof, now });
  const given = { ...approval, method };
  const givenEvent = {
    ...event,
    approval: given,
    type: "approval_given",
    ...(evidence && { evidence }),
  } as const;
  await recordApproval(tx, deps, givenEvent, context);
  const expiresInS = Math.floor((approval.expiresAt.getTime() - now.getTime()) / 1_000);
  return { approvalId: approval.id, method, expiresInS };
}

interface Proof {
  method: SecondFactor;
  evidence?: PasskeyEvidence;
}

async function prove(
  tx: TransactionSql,
  deps: ApprovalDeps,
  given: { user: Locked<Account>; approval: Approval; attempt: ApprovalAttempt },
  context: CallContext,
): Promise<Proof | undefined> {
  const { user, approval, attempt } = given;
  const { passkey: assertion, clientIp, userAgent } = attempt;
  if (assertion === undefined) {
    // A code never reaches level 3.
    if (approval.acr !== 2) return undefined;
    const method = await checkMfaCode(tx, deps, { user, typed: attempt, source: "session" }, context);
    return method && { method };
  }
  // The transaction that is stored, so that the evidence proves it.
  const challenge = approvalChallenge(approval).toString("base64url");
  if (challengeOf(assertion.clientDataJson) !== challenge) return undefined;
  const boundTo = approval.tokenHash;
  const answer = { user, purpose: "approval", boundTo, assertion, clientIp, userAgent } as const;
  const used = await finishPasskeyCeremony(tx, deps, answer, context);
  if (used === undefined) return undefined;
  const { id: passkeyId, credentialId, publicKey } = used.passkey;
  const evidence = {
    nonce: approval.nonce,
    passkeyId,
    credentialId,
    publicKey,
    rpId: deps.passkeyParty.id,
    authenticatorData: Buffer.from(assertion.authenticatorData, "base64url"),
    clientData: Buffer.from(assertion.clientDataJson, "base64url"),
    signature: Buffer.from(assertion.signature, "base64url"),
  };
  return { method: "passkey", evidence };
}

function endOf(approval: Approval | undefined) {
  if (approval === undefined) return "approval_mismatch";
  return approval.method === null || approval.refusedAt !== null ? "approval_expired" : "approval_used";
}
