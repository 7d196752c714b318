import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { type HashNewPasswordDeps, hashNewPassword } from "../passwords/hash-new-password.ts";
import { checkPassword, type PasswordPolicy, refuseBreached } from "../passwords/password-policy.ts";
import { replacePassword } from "../passwords/replace-password.ts";
import { type BeginSessionDeps, beginSession } from "../sessions/begin-session.ts";
import { type EndSessionsDeps, endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { findSessionEpoch } from "../sessions/session-end-store.ts";
import { lockAccount } from "../users/account-store.ts";
import type { User } from "../users/user.ts";
import { findUser } from "../users/user-store.ts";
import type { CompletedLogin } from "./login.ts";
import { mfaTokenHash } from "./mfa-token.ts";
import {
  consumePasswordChange,
  countPasswordChangeTry,
  findOpenPasswordChange,
  type OpenPasswordChange,
} from "./password-change-store.ts";

export interface ChangePasswordAtLoginDeps extends BeginSessionDeps, EndSessionsDeps, HashNewPasswordDeps {
  tokenService: BeginSessionDeps["tokenService"];
  passwordPolicy: PasswordPolicy;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** The new password, and where it came from. */
export interface PasswordChangeAttempt {
  tempToken: string;
  newPassword: string;
  /** May be empty. */
  clientIp: string;
  /** May be empty. */
  userAgent: string;
}

const MAX_TRIES = 5;

interface Changed {
  user: User;
  end: SessionEnd;
  sessionEpoch: number;
}

/**
 * Completes a login to an account whose password must be changed: sets the new one, with all that a change of the
 * password does, and begins the session. A password that the policy refuses costs nothing; each that others are
 * asked about, or that is held against the present one, is one of five tries. Of any number at once, one gets there.
 *
 * @throws {DomainError} `password_change_token_invalid` for a login that is unknown, over, was tried five times, or
 *   whose user's sessions were ended since; `password_unchanged`, the policy's codes, `validation_failed`, `busy`;
 *   `service_unavailable`, after which the password may have changed: log in with the new one.
 */
export async function changePasswordAtLogin(
  deps: ChangePasswordAtLoginDeps,
  attempt: PasswordChangeAttempt,
  context: CallContext,
): Promise<CompletedLogin> {
  const { newPassword, clientIp, userAgent } = attempt;
  const tokenHash = mfaTokenHash(attempt.tempToken);
  if (tokenHash === undefined) throw refused();
  const which = { tokenHash, now: deps.now(), maxTries: MAX_TRIES };
  const open = await findOpenPasswordChange(deps.sql, which);
  if (open === undefined) throw refused();
  checkPassword(deps.passwordPolicy, newPassword, open.email, "newPassword");
  if (!(await countPasswordChangeTry(deps.sql, which))) throw refused();
  await refuseBreached(deps.passwordPolicy, newPassword);
  const next = { ...open, newPassword, mustChangePassword: true, clientIp };
  const passwordHash = await hashNewPassword(deps, next, context.deadlineMs);
  const { user, end, sessionEpoch } = await change(deps, { tokenHash, open, passwordHash, attempt }, context);
  deps.wakeMailWorker();
  // Before the new session, which must not be among them.
  await endSessions(deps, end, context);
  const { id: userId, role } = user;
  const session = { userId, role, amr: open.amr, authTime: open.createdAt, clientIp, userAgent };
  const tokens = await beginSession(deps, session, sessionEpoch, context).catch(refuseLogin);
  return { tokens, user };
}

async function change(
  deps: ChangePasswordAtLoginDeps,
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
    // The policy and the old password were looked at for this address and this hash.
    const isSame = account?.email === open.email && account.passwordHash === open.passwordHash;
    if (account === undefined || !isUsed || !isSame) throw refused();
    const origin = { clientIp: attempt.clientIp, userAgent: attempt.userAgent };
    const reason = "password_changed";
    const end = await replacePassword(tx, deps, account, { passwordHash, reason, ...origin }, context);
    const user = await findUser(tx, userId);
    const sessionEpoch = await findSessionEpoch(tx, userId);
    if (user === undefined || sessionEpoch === undefined) throw refused();
    return { user, end, sessionEpoch };
  });
}

function refused(cause?: unknown): DomainError {
  return new DomainError("password_change_token_invalid", undefined, { cause });
}

/** Credentials that changed while the session began: what was wrong is this login, not what was typed. */
function refuseLogin(error: unknown): never {
  throw error instanceof DomainError && error.code === "invalid_credentials" ? refused(error) : error;
}
