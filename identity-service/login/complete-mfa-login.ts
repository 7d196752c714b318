import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import {
  checkMfaCode,
  type MfaDeps,
  type MfaMethod,
  refuseWrongCode,
  type TypedCode,
} from "../mfa/check-mfa-code.ts";
import { consumeChallenge, countChallengeTry, type FirstFactor, findChallenge } from "../mfa/mfa-store.ts";
import { finishPasskeyCeremony, type PasskeyDeps } from "../passkeys/passkey-ceremony.ts";
import type { Assertion } from "../passkeys/verify-assertion.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { completeLogin, type ProvenUser } from "./complete-login.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { mfaTokenHash } from "./mfa-token.ts";

const MAX_TRIES = 5;

/** RFC 8176. A recovery code is no `otp` (RFC 4226, RFC 6238). */
const AMR: Record<MfaMethod, readonly string[]> = {
  totp: ["otp", "mfa"],
  recovery_code: ["mfa"],
};

export interface MfaAttempt extends TypedCode {
  tempToken: string;
  /** In place of the code, which is ignored then. */
  passkey?: Assertion | undefined;
  deviceToken: string;
  trustDevice?: boolean | undefined;
}

/**
 * Consumes proof and challenge even if no session follows.
 * @throws {DomainError} `mfa_token_invalid`, `mfa_code_invalid`, `passkey_invalid`, `validation_failed`.
 */
export function completeMfaLogin(
  deps: LoginDeps,
  attempt: MfaAttempt,
  context: CallContext,
): Promise<LoginResult> {
  return deps.countLogin("mfa", attemptMfa(deps, attempt, context));
}

async function attemptMfa(deps: LoginDeps, attempt: MfaAttempt, context: CallContext): Promise<LoginResult> {
  const tokenHash = mfaTokenHash(attempt.tempToken);
  if (tokenHash === undefined) throw new DomainError("mfa_token_invalid");
  const passed = await transaction(deps.sql, (tx) => pass(tx, deps, { ...attempt, tokenHash }, context));
  // After the commit, so that the attempt counts.
  if (passed === undefined) refuse(deps, attempt);
  const { firstFactor, amr, user } = passed;
  if (amr === AMR.recovery_code) deps.wakeMailWorker();
  const { trustDevice = false } = attempt;
  const factors = { amr: [firstFactor, ...amr], authTime: deps.now(), trustDevice };
  return completeLogin(deps, { user, ...factors, ifEnded: "mfa_token_invalid" }, attempt, context);
}

/** A notice may be due. */
function refuse(deps: LoginDeps, { passkey }: MfaAttempt): never {
  if (passkey === undefined) refuseWrongCode(deps);
  deps.wakeMailWorker();
  throw new DomainError("passkey_invalid");
}

type HashedAttempt = MfaAttempt & { tokenHash: Buffer };

interface Passed extends Pick<ProvenUser, "user"> {
  firstFactor: FirstFactor;
  /** Of the second factor. */
  amr: readonly string[];
}

/** Undefined for a wrong proof. */
async function pass(
  tx: TransactionSql,
  deps: MfaDeps & PasskeyDeps,
  attempt: HashedAttempt,
  context: CallContext,
): Promise<Passed | undefined> {
  const { tokenHash } = attempt;
  const challenge = await findChallenge(tx, tokenHash);
  const user = challenge && (await lockAccountForMfa(tx, challenge.userId));
  if (challenge === undefined || user?.status !== "active") throw new DomainError("mfa_token_invalid");
  const { sessionEpoch } = user;
  const now = deps.now();
  const isOpen = await countChallengeTry(tx, { tokenHash, sessionEpoch, now, maxTries: MAX_TRIES });
  if (!isOpen) throw new DomainError("mfa_token_invalid");
  const amr = await prove(tx, deps, { ...attempt, user }, context);
  if (amr === undefined) {
    await recordFailure(tx, deps, { ...attempt, user }, context);
    return undefined;
  }
  await consumeChallenge(tx, tokenHash);
  return { user, firstFactor: challenge.firstFactor, amr };
}

async function prove(
  tx: TransactionSql,
  deps: MfaDeps & PasskeyDeps,
  attempt: HashedAttempt & { user: Locked<Account> },
  context: CallContext,
): Promise<readonly string[] | undefined> {
  const { user, tokenHash: boundTo, passkey: assertion, clientIp, userAgent } = attempt;
  if (assertion === undefined) {
    const method = await checkMfaCode(tx, deps, { user, typed: attempt, source: attempt }, context);
    return method && AMR[method];
  }
  const answer = { user, purpose: "second_factor", boundTo, assertion, clientIp, userAgent } as const;
  return (await finishPasskeyCeremony(tx, deps, answer, context))?.amr;
}

/** No actor: only one factor was proven. */
async function recordFailure(
  tx: TransactionSql,
  deps: MfaDeps,
  { user: { id: userId }, clientIp, userAgent, passkey }: MfaAttempt & { user: Pick<Account, "id"> },
  context: CallContext,
): Promise<void> {
  const failure =
    passkey === undefined
      ? ({ reason: "wrong_mfa_code", errorCode: "mfa_code_invalid" } as const)
      : ({ reason: "wrong_passkey", errorCode: "passkey_invalid" } as const);
  const event = { type: "login_failed", userId, clientIp, userAgent, ...failure } as const;
  await recordAudit(tx, deps, event, context);
}
