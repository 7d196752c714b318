import type { CallContext } from "../../service-kit/call-context.ts";
import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { PasswordHasher, Verdict } from "../passwords/password-hasher.ts";
import { beginSession } from "../sessions/begin-session.ts";
import type { SessionTokens, TokenService } from "../sessions/token-service-client.ts";
import type { User } from "../users/user.ts";
import { type Account, findAccountForLogin, replacePasswordHash } from "../users/user-store.ts";
import { type BeginMfaChallengeDeps, beginMfaChallenge, type PendingLogin } from "./begin-mfa-challenge.ts";
import { beginPasswordChange, type PendingPasswordChange } from "./begin-password-change.ts";

export interface LoginDeps extends BeginMfaChallengeDeps {
  sql: Sql;
  passwords: PasswordHasher;
  tokenService: TokenService;
  /** Whether an address that is not proven keeps its account out. */
  loginRequiresVerifiedEmail: boolean;
  /** Whether who registers is told that the address has an account. Then a login need not hide it either. */
  registrationDiscloses: boolean;
  now: () => Date;
  logger: Logger;
  /** Told of every refusal, the same for each reason. Unset: nobody is. */
  onRefused?: (refusal: LoginRefusal) => void;
}

/** Why a login was refused: for the audit log, never for the client. */
export interface LoginRefusal {
  /** Whose account it was for; undefined if there is none. */
  userId: string | undefined;
  reason: "unknown_account" | "account_disabled" | "wrong_password" | "email_not_verified";
  /** What the client is told. */
  code: "invalid_credentials" | "email_not_verified";
}

/** As typed, and from where. */
export interface LoginAttempt {
  email: string;
  password: string;
  /** May be empty. */
  clientIp: string;
  /** May be empty. */
  userAgent: string;
}

/** A session that has begun. */
export interface CompletedLogin {
  tokens: SessionTokens;
  user: User;
}

/** A login whose password was right and which is not over. */
export type UnfinishedLogin = { pending: PendingLogin } | { passwordChange: PendingPasswordChange };

/**
 * Checks e-mail and password and begins a session; or the wait for a code of the second factor, or without one for the
 * new password that an administrator has asked for. Every attempt costs one password verification; an account that is
 * unknown, disabled or without a password fails like a wrong password.
 *
 * @throws {DomainError} `invalid_credentials`; `email_not_verified` only after the right password, and not where a
 *   registration does not tell whether the address has an account: whoever registered it would learn that it was free;
 *   `busy`, `service_unavailable`.
 */
export async function login(
  deps: LoginDeps,
  attempt: LoginAttempt,
  context: CallContext,
): Promise<CompletedLogin | UnfinishedLogin> {
  const email = canonicalEmail(attempt.email);
  const account = email === undefined ? undefined : await findAccountForLogin(deps.sql, email);
  const verdict = await deps.passwords.verify(account, attempt.password, context.deadlineMs, {
    address: email ?? attempt.email,
  });
  // Judged after the hash: refusing before it would tell the states of an account apart by time.
  const reason = refusalOf(deps, account, verdict);
  if (account === undefined || reason !== undefined) {
    const code = codeOf(deps, reason);
    deps.onRefused?.({ userId: account?.user.id, reason: reason ?? "unknown_account", code });
    throw new DomainError(code);
  }
  const { user, sessionEpoch } = account;
  const amr = ["pwd"];
  if (verdict === "match_outdated") await rehash(deps, account, attempt.password, context);
  if (user.mfaEnabled) {
    const { clientIp, userAgent } = attempt;
    return {
      pending: await beginMfaChallenge(deps, {
        userId: user.id,
        firstFactor: "pwd",
        sessionEpoch,
        clientIp,
        userAgent,
      }),
    };
  }
  if (account.mustChangePassword) {
    const login = { userId: user.id, sessionEpoch, amr };
    return { passwordChange: await beginPasswordChange(deps.sql, deps, login) };
  }
  const tokens = await beginSession(
    deps,
    {
      userId: user.id,
      role: user.role,
      amr,
      authTime: deps.now(),
      clientIp: attempt.clientIp,
      userAgent: attempt.userAgent,
    },
    sessionEpoch,
    context,
  );
  return { tokens, user };
}

function refusalOf(
  deps: Pick<LoginDeps, "loginRequiresVerifiedEmail">,
  account: Account | undefined,
  verdict: Verdict,
): LoginRefusal["reason"] | undefined {
  if (account === undefined) return "unknown_account";
  if (account.status !== "active") return "account_disabled";
  if (verdict === "mismatch") return "wrong_password";
  if (deps.loginRequiresVerifiedEmail && !account.user.emailVerified) return "email_not_verified";
  return undefined;
}

function codeOf(
  { registrationDiscloses }: Pick<LoginDeps, "registrationDiscloses">,
  reason: LoginRefusal["reason"] | undefined,
): LoginRefusal["code"] {
  return reason === "email_not_verified" && registrationDiscloses ? reason : "invalid_credentials";
}

/** The password is at hand only now. The login does not depend on it: the next one tries again. */
async function rehash(
  deps: LoginDeps,
  { user, passwordHash }: Account,
  password: string,
  context: CallContext,
): Promise<void> {
  if (passwordHash === null) return;
  try {
    const newHash = await deps.passwords.hash(password, context.deadlineMs);
    await replacePasswordHash(deps.sql, {
      userId: user.id,
      oldHash: passwordHash,
      newHash,
      at: deps.now(),
    });
  } catch (error) {
    deps.logger.warn({ err: error, userId: user.id }, "password hash not renewed");
  }
}
