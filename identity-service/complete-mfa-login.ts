import type { CallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import { orUnavailable, type TransactionSql } from "../service-kit/postgres.ts";
import { type BeginSessionDeps, beginSession } from "./begin-session.ts";
import { checkMfaCode, type MfaMethod } from "./check-mfa-code.ts";
import type { CompletedLogin } from "./login.ts";
import type { MfaDeps, TypedCode } from "./mfa-deps.ts";
import {
  consumeChallenge,
  countChallengeTry,
  type FirstFactor,
  findChallenge,
  lockUserForMfa,
} from "./mfa-store.ts";
import { mfaTokenHash } from "./mfa-token.ts";
import type { User } from "./user.ts";
import { findUser } from "./user-store.ts";

const MAX_TRIES = 5;

/** RFC 8176, beside the first factor. A recovery code is none of the one-time passwords of RFC 4226 or RFC 6238. */
const AMR: Record<MfaMethod, readonly string[]> = {
  totp: ["otp", "mfa"],
  recovery_code: ["mfa"],
};

interface Passed {
  user: User;
  firstFactor: FirstFactor;
  method: MfaMethod;
  sessionEpoch: number;
}

/**
 * Completes a login with a code of the second factor and begins the session. A code and a challenge each count once,
 * also when token-service then cannot give a session: the user logs in again, with the next code.
 *
 * @throws {DomainError} `mfa_token_invalid` for a login that is unknown, over, was tried five times, or whose user's
 *   sessions were ended since; `mfa_code_invalid`; `too_many_requests` after ten wrong codes of the account in 15
 *   minutes; `service_unavailable`.
 */
export async function completeMfaLogin(
  deps: MfaDeps & BeginSessionDeps,
  attempt: TypedCode & { tempToken: string },
  context: CallContext,
): Promise<CompletedLogin> {
  const tokenHash = mfaTokenHash(attempt.tempToken);
  if (tokenHash === undefined) throw new DomainError("mfa_token_invalid");
  const passed = await orUnavailable(deps.sql.begin((tx) => pass(tx, deps, tokenHash, attempt)));
  // After the commit: the try is counted.
  if (passed === undefined) throw new DomainError("mfa_code_invalid");
  const { user, firstFactor, method, sessionEpoch } = passed;
  if (method === "recovery_code") deps.wakeMailWorker();
  const session = {
    userId: user.id,
    role: user.role,
    amr: [firstFactor, ...AMR[method]],
    authTime: deps.now(),
    clientIp: attempt.clientIp,
    userAgent: attempt.userAgent,
  };
  const tokens = await beginSession(deps, session, sessionEpoch, context).catch(refuseLogin);
  return { tokens, user };
}

/** @returns undefined for a wrong code. */
async function pass(
  tx: TransactionSql,
  deps: MfaDeps,
  tokenHash: Buffer,
  attempt: TypedCode,
): Promise<Passed | undefined> {
  const challenge = await findChallenge(tx, tokenHash);
  const locked = challenge && (await lockUserForMfa(tx, challenge.userId));
  if (challenge === undefined || locked === undefined || !locked.isActive)
    throw new DomainError("mfa_token_invalid");
  const { sessionEpoch } = locked;
  const now = deps.now();
  const isOpen = await countChallengeTry(tx, { tokenHash, sessionEpoch, now, maxTries: MAX_TRIES });
  if (!isOpen) throw new DomainError("mfa_token_invalid");
  const method = await checkMfaCode(tx, deps, locked, attempt);
  if (method === undefined) return undefined;
  const user = await findUser(tx, locked.id);
  const isFirst = await consumeChallenge(tx, tokenHash, now);
  if (user === undefined || !isFirst) throw new DomainError("mfa_token_invalid");
  return { user, firstFactor: challenge.firstFactor, method, sessionEpoch };
}

/** Credentials that changed while the session began: what was wrong is this login, not what was typed. */
function refuseLogin(error: unknown): never {
  if (error instanceof DomainError && error.code === "invalid_credentials") {
    throw new DomainError("mfa_token_invalid", undefined, { cause: error });
  }
  throw error;
}
