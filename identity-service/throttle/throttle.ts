import { DomainError } from "#kit/values/errors.ts";
import { type Decision, type Limit, limitOf } from "#rate-limit/gcra.ts";
import type { Account } from "../users/account.ts";

/** Each failure after `freeFailures` doubles the wait. After `maxFailures` only a success or a reset opens it. */
export interface Ladder {
  freeFailures: number;
  maxFailures: number;
  firstWaitMs: number;
  maxWaitMs: number;
}

export interface ThrottleLimits {
  account: Ladder;
  accountAndNetwork: Ladder;
  /** Replaces the two above for a known device. */
  accountAndDevice: Ladder;
  /** Failures. Wider networks have a multiple. */
  network: Limit;
  /** Failures of all networks with a recent login; as many of all others. */
  everything: Limit;
  /** Calls of one kind. */
  callsOfNetwork: Limit;
  calls: Limit;
  callsOfDevice: Limit;
  /** Right logins of one account from one place. */
  logins: Limit;
  /** Wrong ones at one address from one network. Refuses none: beyond it, the answer says that there were many. */
  wrongPasswords: Limit;
}

const LADDER: Ladder = { freeFailures: 4, maxFailures: 100, firstWaitMs: 30_000, maxWaitMs: 3_600_000 };
/** Never locked for good, because the owner may use it. */
const NEVER_SHUT: Ladder = { ...LADDER, maxFailures: 1_000_000_000 };
const WINDOW_MS = 15 * 60_000;
/** One that is forgotten every five minutes. The fifth starts the account's wait, and is the first to be told. */
const WRONG_PASSWORDS = limitOf(LADDER.freeFailures, 20 * 60_000);
/** Two kinds of one network must not fill the 200 places for work after answers. */
export const CALLS_OF_NETWORK = 60;
export const CALLS = 20_000;
/** Limits what a botnet can do with a copied token. */
const CALLS_OF_DEVICE = 5;
/** An hour. */
export const LOGINS = 60;
const HOUR_MS = 3_600_000;

/** Per 15 minutes, `logins` an hour, as in `ThrottleLimits`. */
export interface Budgets {
  network: number;
  everything: number;
  callsOfNetwork?: number;
  calls?: number;
  logins?: number;
}

/** @see NIST SP 800-63B-4 §3.2.2 for the hundred. */
export function throttleLimits(budgets: Budgets): ThrottleLimits {
  return {
    account: LADDER,
    accountAndNetwork: { ...NEVER_SHUT, maxWaitMs: 24 * 3_600_000 },
    accountAndDevice: NEVER_SHUT,
    network: limitOf(budgets.network, WINDOW_MS),
    everything: limitOf(budgets.everything, WINDOW_MS),
    callsOfNetwork: limitOf(budgets.callsOfNetwork ?? CALLS_OF_NETWORK, WINDOW_MS),
    calls: limitOf(budgets.calls ?? CALLS, WINDOW_MS),
    callsOfDevice: limitOf(CALLS_OF_DEVICE, WINDOW_MS),
    logins: limitOf(budgets.logins ?? LOGINS, HOUR_MS),
    wrongPasswords: WRONG_PASSWORDS,
  };
}

/** A day's typing errors must not lock the owner out. */
const LEAST = {
  freeFailures: 2,
  maxFailures: 25,
  network: 25,
  callsOfNetwork: 15,
  callsOfDevice: 2,
  logins: 15,
};

/** With very many replicas, the minimum lets distributed guesses exceed the whole. */
export function shareOf(limits: ThrottleLimits, replicas: number): ThrottleLimits {
  const part = (count: number, least = 1) => Math.max(Math.min(count, least), Math.floor(count / replicas));
  const ladder = (whole: Ladder): Ladder => ({
    ...whole,
    // The failure that starts the wait counts too.
    freeFailures: part(whole.freeFailures + 1, LEAST.freeFailures + 1) - 1,
    maxFailures: part(whole.maxFailures, LEAST.maxFailures),
  });
  const limit = (whole: Limit, least?: number) => limitOf(part(whole.burst, least), whole.burstOffsetMs);
  return {
    account: ladder(limits.account),
    accountAndNetwork: ladder(limits.accountAndNetwork),
    accountAndDevice: ladder(limits.accountAndDevice),
    network: limit(limits.network, LEAST.network),
    everything: limit(limits.everything),
    callsOfNetwork: limit(limits.callsOfNetwork, LEAST.callsOfNetwork),
    calls: limit(limits.calls),
    callsOfDevice: limit(limits.callsOfDevice, LEAST.callsOfDevice),
    logins: limit(limits.logins, LEAST.logins),
    wrongPasswords: limits.wrongPasswords,
  };
}

/** Infinite after `maxFailures`. */
export function ladderWaitMs(ladder: Ladder, failures: number): number {
  if (failures >= ladder.maxFailures) return Number.POSITIVE_INFINITY;
  if (failures <= ladder.freeFailures) return 0;
  return Math.min(ladder.firstWaitMs * 2 ** (failures - ladder.freeFailures - 1), ladder.maxWaitMs);
}

export const LADDER_MEMORY_MS = 30 * 24 * 3_600_000;
const DAY_MS = 24 * 3_600_000;

/**
 * A day for each `freeFailures`, so that waiting never gives more than `freeFailures` guesses a day. At least twice
 * the wait.
 */
export function ladderMemoryMs(ladder: Ladder, failures: number): number {
  const days = Math.ceil(failures / Math.max(1, ladder.freeFailures));
  return Math.min(LADDER_MEMORY_MS, Math.max(days * DAY_MS, 2 * ladderWaitMs(ladder, failures)));
}

export interface Guess {
  /** Canonical address if possible. The account need not exist. */
  account: string;
  clientIp: string;
  deviceId?: string | undefined;
  standing?: Standing | undefined;
}

/** The account, or any account, has logged in from the network within 30 days. */
export type Standing = "session" | "own_network" | "used_network";

/** An anonymous call that costs a hash, a mail or a row. */
export interface CostlyCall {
  kind:
    | "register"
    | "forgot_password"
    | "resend_verification"
    | "reset_password"
    | "oauth_login"
    | "passkey_login";
  /** Without one, only the shared budget counts. */
  clientIp?: string | undefined;
  /** Has a recent login from the network, or a valid link. */
  isKnown?: boolean;
  /** Only its own and its user's budget count. */
  device?: { id: string; userId: string } | undefined;
}

/**
 * A login whose first factor was right. Ways have budgets of their own: a stolen password spends nothing of a passkey's
 * or a provider's.
 */
export interface RightLogin extends Guess {
  kind: "password" | "passkey" | "provider";
}

/** A login that was refused as such, whatever the account. */
export interface WrongPassword extends Pick<Guess, "account" | "clientIp"> {
  kind: "wrong_password";
}

export interface Refusal {
  kind: "refused";
  retryAfterMs: number;
  /** Absent unless the limit is that of the caller's network. */
  limit?: number;
}

export type Admission =
  /** `locksIfWrong`: a failure locks the account. */
  | { kind: "admitted"; locksIfWrong?: boolean }
  /** Must not be disclosed. */
  | { kind: "locked" }
  | Refusal;

/** Guesses count before they are made, so that parallel ones count too. Only `turn` throws. */
export interface Throttle {
  /**
   * Waits for attempts at the account, or at its same device, on any replica. An attempt counts as a failure until it
   * ends.
   * @param waitMs at most a second.
   * @returns call at the end of the attempt.
   * @throws {DomainError} `busy`.
   */
  turn(guess: Guess, waitMs: number): Promise<() => void>;
  /** Counts in all budgets, or in none if one is used up. */
  spend(call: CostlyCall | RightLogin | WrongPassword): Promise<{ kind: "admitted" } | Refusal>;
  /** Counts in the shared budgets, then in the account's counters, each atomically. */
  take(guess: Guess): Promise<Admission>;
  /** Clears the counts of account, network and device. */
  succeed(guess: Guess): Promise<void>;
  /** Uncounts an attempt without a verdict. */
  giveBack(guess: Guess): Promise<void>;
  /**
   * Until when guesses at the account from unknown devices and networks are refused, in milliseconds since the epoch.
   * Infinite: until a success, or `clear`. Undefined: they are not.
   */
  lockedUntil(account: string): Promise<number | undefined>;
  /** Called after a new password or an unlock. */
  clear(account: string): Promise<void>;
  /** Called after a deletion. Other counts have keyed digests and expire within days. */
  forget(account: string): Promise<void>;
  close(): Promise<void>;
}

export function refusalOf(
  buckets: readonly { limit: Limit; isNetwork?: boolean }[],
  decisions: readonly Pick<Decision, "retryInMs">[],
): Refusal | undefined {
  const waitsMs = decisions.map(({ retryInMs }) => retryInMs);
  const longestMs = Math.max(0, ...waitsMs);
  if (longestMs === 0) return undefined;
  const { limit, isNetwork } = buckets[waitsMs.indexOf(longestMs)] ?? {};
  return {
    kind: "refused",
    retryAfterMs: Math.ceil(longestMs),
    ...(isNetwork && limit && { limit: limit.burst }),
  };
}

export function tooManyRequests({ retryAfterMs, limit }: Refusal): DomainError {
  return new DomainError("too_many_requests", undefined, {
    retryAfterMs,
    ...(limit !== undefined && { limit }),
  });
}

/** Counted apart from logins. */
export function reauthenticationOf(userId: string): string {
  return `reauthentication ${userId}`;
}

export async function clearGuesses(
  throttle: Pick<Throttle, "clear">,
  { id, email }: Pick<Account, "id" | "email">,
): Promise<void> {
  await Promise.all([throttle.clear(email), throttle.clear(reauthenticationOf(id))]);
}

export async function forgetGuesses(
  throttle: Pick<Throttle, "forget">,
  { id, email }: Pick<Account, "id" | "email">,
): Promise<void> {
  await Promise.all([throttle.forget(email), throttle.forget(reauthenticationOf(id))]);
}
