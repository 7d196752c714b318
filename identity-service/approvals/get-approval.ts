import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SecondFactor } from "../mfa/second-factors.ts";
import { repeatPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { type ApprovalState, approvalChallenge, approvalState, MAX_TRIES } from "./approval.ts";
import { type Approval, findOwnApproval, selectOwnApprovals } from "./approval-store.ts";
import { type ApprovalDeps, methodsOf } from "./ask-approval.ts";

interface ApprovalDetails extends Pick<Approval, "sessionId" | "createdAt" | "expiresAt"> {
  state: ApprovalState;
  /** RFC 8785. */
  transaction: string;
  /** Empty unless the asking session can give it now. */
  methods: readonly SecondFactor[];
  /** With the method `passkey`. */
  passkey?: PublicKeyCredentialRequestOptionsJSON | undefined;
}

/** Changes nothing. Any session of the user sees it. @throws {DomainError} `not_found`. */
export async function getApproval(
  deps: Pick<ApprovalDeps, "sql" | "now" | "passkeyParty">,
  { userId, sessionId, approvalId }: { userId: string; sessionId: string; approvalId: string },
): Promise<ApprovalDetails> {
  if (!isUuid(approvalId)) throw new DomainError("not_found");
  const [user, approval] = await Promise.all([
    findAccountById(deps.sql, userId),
    findOwnApproval(deps.sql, { id: approvalId, userId }),
  ]);
  if (user?.status !== "active" || approval === undefined) throw new DomainError("not_found");
  const state = approvalState(approval, deps.now());
  const canGive = state === "pending" && approval.sessionId === sessionId;
  const possible = canGive ? await waysToGive(deps.sql, deps, user, approval) : { methods: [] };
  const { transactionText: transaction, createdAt, expiresAt } = approval;
  return { state, transaction, sessionId: approval.sessionId, createdAt, expiresAt, ...possible };
}

/** A passkey only while its challenge can be answered. */
async function waysToGive(
  sql: Sql,
  deps: Pick<ApprovalDeps, "now" | "passkeyParty">,
  user: Account,
  approval: Approval,
): Promise<Pick<ApprovalDetails, "methods" | "passkey">> {
  const challenge = approvalChallenge(approval);
  const ceremony = { purpose: "approval", boundTo: approval.tokenHash, user, challenge } as const;
  const passkey = await repeatPasskeyCeremony(sql, deps, ceremony);
  const methods = methodsOf(user, approval.acr).filter(
    (method) => method !== "passkey" || passkey !== undefined,
  );
  return { methods, passkey };
}

/** A session has ten at most. What is beyond these is not listed, and can still be opened by its id. */
const MAX_LISTED = 50;

/** The newest of the user, whichever session has asked. Changes nothing. @param past those that do not wait any more. */
export async function listOwnApprovals(
  deps: Pick<ApprovalDeps, "sql" | "now">,
  { userId, past }: { userId: string; past: boolean },
): Promise<(Approval & { state: ApprovalState })[]> {
  const user = await findAccountById(deps.sql, userId);
  if (user?.status !== "active") return [];
  const now = deps.now();
  const limits = { now, maxTries: MAX_TRIES, limit: MAX_LISTED };
  const found = await selectOwnApprovals(deps.sql, { userId, past }, limits);
  return found.map((approval) => ({ ...approval, state: approvalState(approval, now) }));
}
