import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { checkPassword, refuseBreached } from "../passwords/password-policy.ts";
import { hashNewPassword, replacePassword } from "../passwords/replace-password.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { judgeTry } from "../throttle/count-guess.ts";
import type { Account } from "../users/account.ts";
import { findAccountById, lockAccount } from "../users/account-store.ts";
import { completeLogin } from "./complete-login.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { mfaTokenHash } from "./mfa-token.ts";
import {
  consumePasswordChange,
  countPasswordChangeTry,
  findOpenPasswordChange,
  givePasswordChangeTryBack,
  type OpenPasswordChange,
} from "./password-change-store.ts";
import type { LoginOrigin } from "./remember-device.ts";

export interface PasswordChangeAttempt extends LoginOrigin {
  tempToken: string;
  newPassword: string;
}

const MAX_TRIES = 5;
const REFUSAL = "password_change_token_invalid";

/**
 * Five attempts; a violation of the policy does not count, nor does an attempt without a verdict.
 * @throws {DomainError} `password_change_token_invalid`, `password_unchanged`, or as `checkPassword`.
 */
export function changePasswordAtLogin(
  deps: LoginDeps,
  attempt: PasswordChangeAttempt,
  context: CallContext,
): Promise<LoginResult> {
  return deps.countLogin("password_change", attemptChange(deps, attempt, context));
}

async function attemptChange(
  deps: LoginDeps,
  attempt: PasswordChangeAttempt,
  context: CallContext,
): Promise<LoginResult> {
  const { newPassword, clientIp } = attempt;
  const tokenHash = mfaTokenHash(attempt.tempToken);
  if (tokenHash === undefined) throw refused();
  const which = { tokenHash, now: deps.now(), maxTries: MAX_TRIES };
  const open = await findOpenPasswordChange(deps.sql, which);
  if (open === undefined) throw refused();
  checkPassword(deps.passwordPolicy, newPassword, open.email, "newPassword");
  if (!(await countPasswordChangeTry(deps.sql, which))) throw refused();
  const account = { id: open.userId, passwordHash: open.passwordHash, mustChangePassword: true };
  const check = async () => {
    await refuseBreached(deps.passwordPolicy, newPassword);
    return hashNewPassword(deps, account, { newPassword, clientIp }, context.deadlineMs);
  };
  const passwordHash = await judgeTry(check, () => givePasswordChangeTryBack(deps.sql, which));
  const changed = { tokenHash, open, passwordHash, attempt };
  const { user, end } = await change(deps, changed, context);
  deps.wakeMailWorker();
  // Before the new session exists.
  await endSessions(deps, end, context);
  const proven = { user, amr: open.amr, authTime: open.createdAt, ifEnded: REFUSAL } as const;
  return completeLogin(deps, proven, attempt, context);
}

interface Changed {
  user: Account;
  end: SessionEnd;
}

async function change(
  deps: LoginDeps,
  step: {
    tokenHash: Buffer;
    open: OpenPasswordChange;
    passwordHash: string;
    attempt: PasswordChangeAttempt;
  },
  context: CallContext,
): Promise<Changed> {
  const { tokenHash, open, passwordHash, attempt } = step;
  const { userId } = open;
  return transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    const isUsed = await consumePasswordChange(tx, { tokenHash, now: deps.now() });
    // The policy was checked against these.
    const isSame = account?.email === open.email && account.passwordHash === open.passwordHash;
    if (account === undefined || !isUsed || !isSame) throw refused();
    const origin = { clientIp: attempt.clientIp, userAgent: attempt.userAgent };
    const reason = "password_changed";
    const end = await replacePassword(tx, deps, { account, passwordHash, reason, ...origin }, context);
    const user = await findAccountById(tx, userId);
    if (user?.status !== "active") throw refused();
    return { user, end };
  });
}

function refused(): DomainError {
  return new DomainError(REFUSAL);
}
