import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { tellAudit } from "../audit/tell-audit.ts";
import { checkMfaCode, type DeviceShown, type MfaMethod, refuseWrongCode } from "../mfa/check-mfa-code.ts";
import type { MfaDeps, TypedCode } from "../mfa/mfa-deps.ts";
import {
  consumeChallenge,
  countChallengeTry,
  type FirstFactor,
  findChallenge,
  lockUserForMfa,
} from "../mfa/mfa-store.ts";
import { type BeginSessionDeps, beginSession } from "../sessions/begin-session.ts";
import type { User } from "../users/user.ts";
import { findUser } from "../users/user-store.ts";
import {
  type BeginPasswordChangeDeps,
  beginPasswordChange,
  type PendingPasswordChange,
} from "./begin-password-change.ts";
import type { CompletedLogin } from "./login.ts";
import { mfaTokenHash } from "./mfa-token.ts";

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
  /** Instead of a session. */
  passwordChange: PendingPasswordChange | undefined;
}

/**
 * Completes a login with a code of the second factor and begins the session, or the wait for the new password that an
 * administrator has asked for. A code and a challenge each count once,
 * also when token-service then cannot give a session: the user logs in again, with the next code.
 *
 * @throws {DomainError} `mfa_token_invalid` for a login that is unknown, over, was tried five times, or whose user's
 *   sessions were ended since; `mfa_code_invalid`; `validation_failed` for what is no code; `too_many_requests` for an
 *   app's code after ten wrong codes in 15 minutes, 20 in a day or 100 in a row; `service_unavailable`.
 */
export async function completeMfaLogin(
  deps: MfaDeps & BeginSessionDeps & BeginPasswordChangeDeps,
  attempt: TypedCode & DeviceShown & { tempToken: string },
  context: CallContext,
): Promise<CompletedLogin | { passwordChange: PendingPasswordChange }> {
  const tokenHash = mfaTokenHash(attempt.tempToken);
  if (tokenHash === undefined) throw new DomainError("mfa_token_invalid");
  const passed = await transaction(deps.sql, (tx) => pass(tx, deps, { tokenHash, attempt, context }));
  // After the commit: the try is counted.
  if (passed === undefined) refuseWrongCode(deps);
  const { user, firstFactor, method, sessionEpoch, passwordChange } = passed;
  if (method === "recovery_code") deps.wakeMailWorker();
  if (passwordChange !== undefined) return { passwordChange };
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
  deps: MfaDeps & BeginPasswordChangeDeps,
  step: { tokenHash: Buffer; attempt: TypedCode & DeviceShown; context: CallContext },
): Promise<Passed | undefined> {
  const { tokenHash, attempt, context } = step;
  const challenge = await findChallenge(tx, tokenHash);
  const locked = challenge && (await lockUserForMfa(tx, challenge.userId));
  if (challenge === undefined || locked === undefined || !locked.isActive)
    throw new DomainError("mfa_token_invalid");
  const { sessionEpoch } = locked;
  const now = deps.now();
  const isOpen = await countChallengeTry(tx, { tokenHash, sessionEpoch, now, maxTries: MAX_TRIES });
  if (!isOpen) throw new DomainError("mfa_token_invalid");
  const method = await checkMfaCode(tx, deps, locked, attempt, attempt, context);
  if (method === undefined) {
    await tellFailure(tx, deps, locked.id, attempt, context);
    return undefined;
  }
  const user = await findUser(tx, locked.id);
  if (user === undefined) throw new DomainError("mfa_token_invalid");
  await consumeChallenge(tx, tokenHash, now);
  const { firstFactor } = challenge;
  // Who came from an identity provider has not used the password that must be changed.
  const passwordChange =
    locked.mustChangePassword && firstFactor === "pwd"
      ? await beginPasswordChange(tx, deps, {
          userId: user.id,
          sessionEpoch,
          amr: [firstFactor, ...AMR[method]],
        })
      : undefined;
  return { user, firstFactor, method, sessionEpoch, passwordChange };
}

/** No actor: whoever typed the code has shown one factor only. Whose login it was is the resource. */
async function tellFailure(
  tx: TransactionSql,
  deps: MfaDeps,
  userId: string,
  { clientIp, userAgent }: TypedCode,
  context: CallContext,
): Promise<void> {
  const failure = { reason: "wrong_mfa_code", errorCode: "mfa_code_invalid" } as const;
  const event = { type: "login_failed", userId, clientIp, userAgent, ...failure } as const;
  await tellAudit(tx, deps, event, context);
}

/** Credentials that changed while the session began: what was wrong is this login, not what was typed. */
function refuseLogin(error: unknown): never {
  if (error instanceof DomainError && error.code === "invalid_credentials") {
    throw new DomainError("mfa_token_invalid", undefined, { cause: error });
  }
  throw error;
}
