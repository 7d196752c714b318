import type { CallContext } from "../../service-kit/call-context.ts";
import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { PasswordHasher } from "../passwords/password-hasher.ts";
import { countGuess } from "../throttle/count-guess.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import { knownDevice } from "../throttle/known-device.ts";
import { type KnownNetworkDeps, networkStanding } from "../throttle/known-network.ts";
import type { Guess, Throttle } from "../throttle/throttle.ts";
import { type LoginAttempt, type LoginDeps, type LoginRefusal, login } from "./login.ts";

/** A login that was refused, for the audit log. */
export interface FailedLogin {
  /** Whose account it was for; undefined if there is none. */
  userId: string | undefined;
  reason: LoginRefusal["reason"] | "locked";
  /** What the client is told. */
  code: LoginRefusal["code"];
  clientIp: string;
  userAgent: string;
}

export interface ThrottleLoginDeps extends Omit<LoginDeps, "onRefused">, KnownNetworkDeps {
  throttle: Throttle;
  deviceTokens: DeviceTokens;
  hashShare: HashShare;
  /** Called with its canonical address when an account is locked, also if there is none. Does not wait, never throws. */
  tellOwnerOfGuesses: (account: string) => void;
  /**
   * Takes a failed login for the audit log, without waiting and without failing. It does the same work whatever the
   * reason: that is told to the log only.
   */
  noteFailedLogin: (failed: FailedLogin, context: CallContext) => void;
}

export interface ThrottledAttempt extends LoginAttempt {
  /** As an earlier login gave it; may be empty. */
  deviceToken: string;
}

/**
 * `login`, with every attempt counted before its password is looked at. Beyond the network's or everybody's budget it
 * is refused and told so. Beyond the account's it fails as with a wrong password, after the same work, whatever the
 * password: whether an account is locked tells that somebody attacks it, or that its owner has just been there.
 *
 * @throws {DomainError} what `login` throws; `too_many_requests`; `busy` also while too many others try the same account.
 */
export async function throttleLogin(
  deps: ThrottleLoginDeps,
  attempt: ThrottledAttempt,
  context: CallContext,
): ReturnType<typeof login> {
  const account = canonicalEmail(attempt.email) ?? attempt.email;
  const device = await knownDevice(deps, attempt.deviceToken, account);
  const { clientIp } = attempt;
  const standing = device === undefined ? await networkStanding(deps, account, clientIp) : undefined;
  const guess: Guess = { account, clientIp, deviceId: device?.id, standing };
  const isKnown = device !== undefined || standing === "own_network";
  const onLocked = () => deps.tellOwnerOfGuesses(account);
  return countGuess(deps.throttle, guess, context.deadlineMs, onLocked, (isLocked) =>
    deps.hashShare.run({ clientIp, isKnown }, () =>
      login(loginDeps(deps, attempt, isLocked, context), attempt, context),
    ),
  );
}

function loginDeps(
  deps: ThrottleLoginDeps,
  { clientIp, userAgent }: ThrottledAttempt,
  isLocked: boolean,
  context: CallContext,
): LoginDeps {
  return {
    ...deps,
    passwords: isLocked ? matchingNothing(deps) : deps.passwords,
    onRefused: ({ userId, reason, code }) =>
      deps.noteFailedLogin(
        { userId, reason: isLocked ? "locked" : reason, code, clientIp, userAgent },
        context,
      ),
  };
}

/** Does the work of a verification and never looks at the account's own hash. */
function matchingNothing({ passwords }: ThrottleLoginDeps): PasswordHasher {
  return {
    ...passwords,
    verify: (account, password, deadlineMs, how) =>
      passwords.verify(account, password, deadlineMs, { ...how, neverMatches: true }),
  };
}
