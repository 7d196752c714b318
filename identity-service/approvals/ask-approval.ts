import { createHash } from "node:crypto";
import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MfaDeps } from "../mfa/check-mfa-code.ts";
import { type SecondFactor, secondFactorsOf } from "../mfa/second-factors.ts";
import { beginPasskeyCeremony, type PasskeyDeps } from "../passkeys/passkey-ceremony.ts";
import type { Account } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { approvalChallenge, approvalTokenHash, newApprovalToken } from "./approval.ts";
import { recordApproval } from "./approval-events.ts";
import { type ApprovalLevel, insertApproval, keepNewestUnused } from "./approval-store.ts";

const MAX_OPEN_PER_SESSION = 10;
const MAX_TRANSACTION_BYTES = 16_384;
const MIN_TTL_S = 30;
const MAX_TTL_S = 900;
const NONCE_BYTES = 32;

export type ApprovalDeps = MfaDeps & PasskeyDeps;

export interface AskApproval extends ClientOrigin {
  userId: string;
  sessionId: string;
  /** RFC 8785 canonical JSON. Its SHA-256 is the digest. */
  transaction: string;
  acr: number;
  ttlS: number;
}

interface AskedApproval {
  approvalId: string;
  /** Never logged. */
  token: string;
  methods: readonly SecondFactor[];
  /** With the method `passkey`. */
  passkey?: PublicKeyCredentialRequestOptionsJSON | undefined;
  expiresInS: number;
}

/** @throws {DomainError} `mfa_enrollment_required`, `not_found`, `validation_failed`. */
export async function askApproval(
  deps: ApprovalDeps,
  asked: AskApproval,
  context: CallContext,
): Promise<AskedApproval> {
  assertInBounds(asked);
  const { userId, sessionId, transaction: transactionText, acr, ttlS: expiresInS } = asked;
  const token = newApprovalToken(deps.randomBytes);
  const tokenHash = approvalTokenHash(token);
  if (tokenHash === undefined) throw new Error("the generated token has an invalid format");
  const digest = createHash("sha256").update(transactionText).digest();
  const nonce = deps.randomBytes(NONCE_BYTES);
  const approvalId = deps.newId();
  const possible = await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user?.status !== "active") throw new DomainError("not_found");
    const methods = methodsOf(user, acr);
    if (methods.length === 0) throw new DomainError("mfa_enrollment_required");
    const createdAt = deps.now();
    const expiresAt = new Date(createdAt.getTime() + expiresInS * 1_000);
    const approval = { id: approvalId, userId, sessionId, tokenHash, transactionText, digest, acr };
    await keepNewestUnused(tx, sessionId, MAX_OPEN_PER_SESSION - 1);
    await insertApproval(tx, { ...approval, nonce, createdAt, expiresAt });
    const { clientIp, userAgent } = asked;
    await recordApproval(
      tx,
      deps,
      { type: "approval_asked", userId, approval, clientIp, userAgent },
      context,
    );
    const challenge = approvalChallenge({ nonce, digest });
    const ceremony = { purpose: "approval", boundTo: tokenHash, user, challenge } as const;
    return { methods, passkey: await beginPasskeyCeremony(tx, deps, ceremony) };
  });
  return { approvalId, token, ...possible, expiresInS };
}

/** The user's factors that reach the level. Codes reach level 2. */
export function methodsOf(user: Account, acr: ApprovalLevel): readonly SecondFactor[] {
  return secondFactorsOf(user).filter((method) => acr === 2 || method === "passkey");
}

function assertInBounds(asked: AskApproval): asserts asked is AskApproval & { acr: ApprovalLevel } {
  const { transaction: text, acr, ttlS } = asked;
  const isTtl = ttlS >= MIN_TTL_S && ttlS <= MAX_TTL_S;
  if (isTtl && (acr === 2 || acr === 3) && Buffer.byteLength(text) <= MAX_TRANSACTION_BYTES) return;
  throw new DomainError("validation_failed");
}
