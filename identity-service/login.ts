import type { CallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import { orUnavailable, type Sql } from "../service-kit/postgres.ts";
import { type BeginMfaChallengeDeps, beginMfaChallenge, type PendingLogin } from "./begin-mfa-challenge.ts";
import { beginSession } from "./begin-session.ts";
import { canonicalEmail } from "./canonical-email.ts";
import type { PasswordHasher } from "./password-hasher.ts";
import type { SessionTokens, TokenService } from "./token-service-client.ts";
import type { User } from "./user.ts";
import { type Account, findAccount, replacePasswordHash } from "./user-store.ts";

export interface LoginDeps extends BeginMfaChallengeDeps {
  sql: Sql;
  passwords: PasswordHasher;
  tokenService: TokenService;
  /** Whether an address that is not proven keeps its account out. */
  loginRequiresVerifiedEmail: boolean;
  now: () => Date;
  logger: Logger;
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

/**
 * Checks e-mail and password and begins a session, or with a second factor the wait for its code. Every attempt costs one password verification; an account
 * that is unknown, disabled or without a password fails like a wrong password.
 *
 * @throws {DomainError} `invalid_credentials`; `email_not_verified` only after the right password; `busy`, `service_unavailable`.
 */
export async function login(
  deps: LoginDeps,
  attempt: LoginAttempt,
  context: CallContext,
): Promise<CompletedLogin | { pending: PendingLogin }> {
  const email = canonicalEmail(attempt.email);
  const account = email === undefined ? undefined : await orUnavailable(findAccount(deps.sql, email));
  const verdict = await deps.passwords.verify(account, attempt.password, context.deadlineMs);
  // Judged after the hash: refusing before it would tell the states of an account apart by time.
  if (account === undefined || account.status !== "active" || verdict === "mismatch") {
    throw new DomainError("invalid_credentials");
  }
  const { user } = account;
  if (deps.loginRequiresVerifiedEmail && !user.emailVerified) throw new DomainError("email_not_verified");
  if (verdict === "match_outdated") await rehash(deps, account, attempt.password, context);
  if (user.mfaEnabled) {
    const { sessionEpoch } = account;
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
  const tokens = await beginSession(
    deps,
    {
      userId: user.id,
      role: user.role,
      amr: ["pwd"],
      authTime: deps.now(),
      clientIp: attempt.clientIp,
      userAgent: attempt.userAgent,
    },
    account.sessionEpoch,
    context,
  );
  return { tokens, user };
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
