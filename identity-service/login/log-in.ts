import type { CallContext } from "../../service-kit/call-context.ts";
import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { PasswordHasher, Verdict } from "../passwords/password-hasher.ts";
import { countGuess, type GuessVerdict } from "../throttle/count-guess.ts";
import type { KnownDevice } from "../throttle/device-token.ts";
import { knownDevice } from "../throttle/known-device.ts";
import { networkStanding } from "../throttle/known-network.ts";
import type { Guess, Throttle } from "../throttle/throttle.ts";
import { type Account, findAccountForLogin, replacePasswordHash } from "../users/user-store.ts";
import { type CompleteLoginDeps, completeLogin, type LoginResult } from "./complete-login.ts";
import type { CountLogin } from "./count-logins.ts";

export interface LogInDeps extends CompleteLoginDeps {
  passwords: PasswordHasher;
  throttle: Throttle;
  hashShare: HashShare;
  /** Whether an account cannot log in before its address is verified. */
  loginRequiresVerifiedEmail: boolean;
  /** Whether registration tells that an address has an account. Then a login need not hide it either. */
  registrationDiscloses: boolean;
  countLogin: CountLogin;
  /** Called with the canonical address when an account is locked, also if there is none. Does not wait, never throws. */
  tellOwnerOfGuesses: (account: string) => void;
  /** Called on every refusal, for the audit log. Does the same work for each reason, does not wait, never throws. */
  noteFailedLogin: (failed: FailedLogin, context: CallContext) => void;
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
  /** As an earlier login on this device gave it; may be empty. */
  deviceToken: string;
}

/** A login that was refused, for the audit log. */
export interface FailedLogin extends Refusal {
  /** Whose account it was for; undefined if there is none. */
  userId: string | undefined;
  clientIp: string;
  userAgent: string;
}

interface Refusal {
  /** Never shown to the client. */
  reason: "unknown_account" | "account_disabled" | "wrong_password" | "email_not_verified" | "locked";
  /** What the client is told. */
  code: "invalid_credentials" | "email_not_verified";
}

interface Caller {
  guess: Guess;
  device: KnownDevice | undefined;
  /** Whether the account has logged in from this device or network before. */
  isKnown: boolean;
}

/**
 * Logs in with an address and a password. The attempt is counted before the password is verified, and every attempt costs
 * one verification: an account that is unknown, disabled, locked or without a password fails like a wrong password, after
 * the same work. A locked account fails with the right password too: to see that it is locked would tell that
 * it is being attacked, or that its owner has just been there.
 *
 * @throws {DomainError} `invalid_credentials`; `email_not_verified` only after the right password, and only where
 *   registration tells whether an address has an account; `too_many_requests` beyond the budget of the network or of all
 *   strangers; `busy`, also while too many others try the same account; `service_unavailable`.
 */
export function logIn(deps: LogInDeps, attempt: LoginAttempt, context: CallContext): Promise<LoginResult> {
  return deps.countLogin("password", attemptLogin(deps, attempt, context));
}

async function attemptLogin(
  deps: LogInDeps,
  attempt: LoginAttempt,
  context: CallContext,
): Promise<LoginResult> {
  const email = canonicalEmail(attempt.email) ?? attempt.email;
  const caller = await recogniseCaller(deps, attempt, email);
  const onLocked = () => deps.tellOwnerOfGuesses(email);
  const counted = await countGuess(deps.throttle, caller.guess, context.deadlineMs, onLocked);
  let shown: GuessVerdict = "none";
  try {
    const { account, verdict } = await verifyPassword(deps, attempt, caller, counted.isLocked, context);
    const judged = judge(deps, account, verdict, counted.isLocked);
    if ("code" in judged) {
      const { clientIp, userAgent } = attempt;
      deps.noteFailedLogin({ ...judged, userId: account?.user.id, clientIp, userAgent }, context);
      shown = judged.code === "invalid_credentials" ? "wrong" : "right";
      throw new DomainError(judged.code);
    }
    if (verdict === "match_outdated") await renewHash(deps, judged, attempt, context);
    const { user, sessionEpoch, mustChangePassword } = judged;
    const proven = { user, sessionEpoch, mustChangePassword, amr: ["pwd"], authTime: deps.now() } as const;
    const origin = { ...attempt, device: caller.device };
    const result = await completeLogin(deps, proven, origin, "invalid_credentials", context);
    shown = "right";
    return result;
  } finally {
    await counted.end(shown);
  }
}

async function recogniseCaller(
  deps: LogInDeps,
  { clientIp, deviceToken }: LoginAttempt,
  email: string,
): Promise<Caller> {
  const device = await knownDevice(deps, deviceToken, email);
  const standing = device === undefined ? await networkStanding(deps, email, clientIp) : undefined;
  return {
    guess: { account: email, clientIp, deviceId: device?.id, standing },
    device,
    isKnown: device !== undefined || standing === "own_network",
  };
}

/** Within the caller's share of the hash queue. Of a locked account the own hash is never looked at. */
function verifyPassword(
  deps: LogInDeps,
  { email, password, clientIp }: LoginAttempt,
  { isKnown }: Caller,
  isLocked: boolean,
  context: CallContext,
): Promise<{ account: Account | undefined; verdict: Verdict }> {
  return deps.hashShare.run({ clientIp, isKnown }, async () => {
    const canonical = canonicalEmail(email);
    const account = canonical === undefined ? undefined : await findAccountForLogin(deps.sql, canonical);
    const how = { address: canonical ?? email, neverMatches: isLocked };
    return { account, verdict: await deps.passwords.verify(account, password, context.deadlineMs, how) };
  });
}

/** After the hash: a refusal before it would tell the states of an account apart by time. */
function judge(
  deps: Pick<LogInDeps, "loginRequiresVerifiedEmail" | "registrationDiscloses">,
  account: Account | undefined,
  verdict: Verdict,
  isLocked: boolean,
): Account | Refusal {
  const code = "invalid_credentials";
  if (isLocked) return { reason: "locked", code };
  if (account === undefined) return { reason: "unknown_account", code };
  if (account.status !== "active") return { reason: "account_disabled", code };
  if (verdict === "mismatch") return { reason: "wrong_password", code };
  if (deps.loginRequiresVerifiedEmail && !account.user.emailVerified) {
    // Else whoever has just registered the address would learn that it was free.
    return { reason: "email_not_verified", code: deps.registrationDiscloses ? "email_not_verified" : code };
  }
  return account;
}

/** The password is at hand only now. The login does not depend on it: the next one tries again. */
async function renewHash(
  deps: LogInDeps,
  { user, passwordHash }: Account,
  { password }: LoginAttempt,
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
