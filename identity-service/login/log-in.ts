import type { CallContext } from "#kit/rpc/call-context.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { Verdict } from "../passwords/password-hasher.ts";
import { countGuess, type GuessVerdict } from "../throttle/count-guess.ts";
import type { Account } from "../users/account.ts";
import { findAccountForLogin } from "../users/account-store.ts";
import { needsVerifiedEmail } from "../users/can-log-in.ts";
import { replacePasswordHash } from "../users/user-store.ts";
import { completeLogin } from "./complete-login.ts";
import type { LoginDeps, LoginRefusal } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { recogniseCaller, spendLogin } from "./recognise-caller.ts";

export interface LoginAttempt extends ClientOrigin {
  email: string;
  password: string;
  deviceToken: string;
}

/**
 * Each attempt counts first and costs one verification. Unknown, disabled and locked accounts fail like a wrong
 * password, even with the right one, so that the answer does not reveal them.
 * @throws {DomainError} `invalid_credentials`, with `retryAfterMs` after many of the caller; `too_many_requests`;
 * `email_not_verified` if the password is right and `registrationDiscloses`.
 */
export function logIn(deps: LoginDeps, attempt: LoginAttempt, context: CallContext): Promise<LoginResult> {
  const login = attemptLogin(deps, attempt, context).catch(async (error: unknown) => {
    const isWrong = error instanceof DomainError && error.code === "invalid_credentials";
    throw isWrong ? await wrongPassword(deps, attempt) : error;
  });
  return deps.countLogin("password", login);
}

/** The same for every account and password: see `WrongPassword`. */
async function wrongPassword(
  { throttle }: Pick<LoginDeps, "throttle">,
  { email, clientIp }: LoginAttempt,
): Promise<DomainError> {
  const code = "invalid_credentials";
  const account = canonicalEmail(email) ?? email;
  const spending = await throttle.spend({ kind: "wrong_password", account, clientIp });
  if (spending.kind === "admitted") return new DomainError(code);
  const message = "Too many tries for this address lately. Wait a few minutes, or set a new password.";
  return new DomainError(code, message, { retryAfterMs: spending.retryAfterMs });
}

async function attemptLogin(
  deps: LoginDeps,
  attempt: LoginAttempt,
  context: CallContext,
): Promise<LoginResult> {
  const email = canonicalEmail(attempt.email) ?? attempt.email;
  const caller = await recogniseCaller(deps, attempt, email);
  const onLocked = () => deps.notifyOwnerOfGuesses(email);
  const counted = await countGuess(deps.throttle, caller.guess, context.deadlineMs, onLocked);
  let shown: GuessVerdict = "none";
  try {
    const { account, verdict } = await verifyPassword(
      deps,
      attempt,
      { isKnown: caller.isKnown, isLocked: counted.isLocked },
      context,
    );
    const judged = judge(deps, account, verdict, counted.isLocked);
    if ("code" in judged) {
      const { clientIp, userAgent } = attempt;
      deps.noteFailedLogin({ ...judged, userId: account?.id, clientIp, userAgent }, context);
      shown = judged.code === "invalid_credentials" ? "wrong" : "right";
      throw new DomainError(judged.code);
    }
    await spendLogin(deps, "password", caller);
    if (verdict === "match_outdated") await renewHash(deps, judged, attempt, context);
    const ifEnded = "invalid_credentials";
    const proven = { user: judged, amr: ["pwd"], authTime: deps.now(), ifEnded } as const;
    const origin = { ...attempt, device: caller.device };
    const result = await completeLogin(deps, proven, origin, context);
    shown = "right";
    return result;
  } finally {
    await counted.end(shown);
  }
}

function verifyPassword(
  deps: LoginDeps,
  { email, password, clientIp }: LoginAttempt,
  { isKnown, isLocked }: { isKnown: boolean; isLocked: boolean },
  context: CallContext,
): Promise<{ account: Account | undefined; verdict: Verdict }> {
  return deps.hashShare.run({ clientIp, isKnown }, async () => {
    const canonical = canonicalEmail(email);
    const account = canonical === undefined ? undefined : await findAccountForLogin(deps.sql, canonical);
    const how = { address: canonical ?? email, neverMatches: isLocked };
    return { account, verdict: await deps.passwords.verify(account, password, context.deadlineMs, how) };
  });
}

/** After the hash, so that timing reveals no state. */
function judge(
  deps: Pick<LoginDeps, "loginRequiresVerifiedEmail" | "registrationDiscloses">,
  account: Account | undefined,
  verdict: Verdict,
  isLocked: boolean,
): Account | LoginRefusal {
  const code = "invalid_credentials";
  if (isLocked) return { reason: "locked", code };
  if (account === undefined) return { reason: "unknown_account", code };
  if (account.status !== "active") return { reason: "account_disabled", code };
  if (verdict === "mismatch") return { reason: "wrong_password", code };
  if (needsVerifiedEmail(deps, account)) {
    // After a registration, it would reveal that the address was free.
    return { reason: "email_not_verified", code: deps.registrationDiscloses ? "email_not_verified" : code };
  }
  return account;
}

/** The next login retries. */
async function renewHash(
  deps: LoginDeps,
  { id: userId, passwordHash }: Account,
  { password }: LoginAttempt,
  context: CallContext,
): Promise<void> {
  if (passwordHash === null) return;
  try {
    const newHash = await deps.passwords.hash(password, context.deadlineMs);
    await replacePasswordHash(deps.sql, { userId, oldHash: passwordHash, newHash, at: deps.now() });
  } catch (error) {
    deps.logger.warn({ err: error, userId }, "password hash not renewed");
  }
}
