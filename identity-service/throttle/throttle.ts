import { type Decision, type Limit, limitOf } from "../../rate-limit/gcra.ts";
import { DomainError } from "../../service-kit/errors.ts";

/** Each failure after `freeFailures` doubles the wait. After `maxFailures` only a success or a reset opens it again. */
export interface Ladder {
  freeFailures: number;
  maxFailures: number;
  firstWaitMs: number;
  maxWaitMs: number;
}

export interface ThrottleLimits {
  account: Ladder;
  accountAndNetwork: Ladder;
  /** For a known device, in place of the two above. */
  accountAndDevice: Ladder;
  /** Failures. Wider networks have a multiple. */
  network: Limit;
  /** Failures from all networks without a recent login, and as many from all with one. */
  everything: Limit;
  /** Calls of one kind. Wider networks have a multiple. */
  callsOfNetwork: Limit;
  calls: Limit;
  /** All devices of a user together have four times as many. */
  callsOfDevice: Limit;
}

const LADDER: Ladder = { freeFailures: 4, maxFailures: 100, firstWaitMs: 30_000, maxWaitMs: 3_600_000 };
/** A network or device is never locked for good: the owner may use it. */
const NEVER_SHUT: Ladder = { ...LADDER, maxFailures: 1_000_000_000 };
const WINDOW_MS = 15 * 60_000;
/** Two kinds of one network must not fill the 200 places for work after answers. */
export const CALLS_OF_NETWORK = 60;
export const CALLS = 20_000;
/** Small, to limit what a botnet can do with a copied token. */
const CALLS_OF_DEVICE = 5;

/** The numbers in `ThrottleLimits`, in 15 minutes. */
export interface Budgets {
  network: number;
  everything: number;
  callsOfNetwork?: number;
  calls?: number;
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
  };
}

/** The minimum of a replica's share: the typing errors of a day must not lock the owner out. */
const LEAST = { freeFailures: 2, maxFailures: 25, network: 25, callsOfNetwork: 15, callsOfDevice: 2 };

/** A replica's part, for use without Redis. With very many replicas, the minimum lets distributed guesses exceed the whole. */
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
  };
}

/** Infinite after `maxFailures`. */
export function ladderWaitMs(ladder: Ladder, failures: number): number {
  if (failures >= ladder.maxFailures) return Number.POSITIVE_INFINITY;
  if (failures <= ladder.freeFailures) return 0;
  return Math.min(ladder.firstWaitMs * 2 ** (failures - ladder.freeFailures - 1), ladder.maxWaitMs);
}

/** The count of a locked account. */
export const LADDER_MEMORY_MS = 30 * 24 * 3_600_000;
const DAY_MS = 24 * 3_600_000;

/**
 * How long a count is kept after the last attempt: a day for each `freeFailures`, so that waiting until it is deleted never
 * gives more than `freeFailures` guesses a day. At least twice the wait.
 */
export function ladderMemoryMs(ladder: Ladder, failures: number): number {
  const days = Math.ceil(failures / Math.max(1, ladder.freeFailures));
  return Math.min(LADDER_MEMORY_MS, Math.max(days * DAY_MS, 2 * ladderWaitMs(ladder, failures)));
}

export interface Guess {
  /** An address, canonical if possible. The account need not exist. */
  account: string;
  clientIp: string;
  /** A known device of the account. */
  deviceId?: string | undefined;
  /** Only without a known device. */
  standing?: Standing | undefined;
}

/** Each standing has its own share: the user's session; a network where the account, or where any account, logged in lately. */
export type Standing = "session" | "own_network" | "used_network";

/** An anonymous call that costs a hash, a mail or a row. */
export interface CostlyCall {
  kind: "register" | "forgot_password" | "resend_verification" | "reset_password" | "oauth_login";
  /** Without one, the call counts against the shared budget only. */
  clientIp?: string | undefined;
  /** A recent login from the network, or a valid link: counted apart from strangers. */
  isKnown?: boolean;
  /** Counted against the device and its user only. */
  device?: { id: string; userId: string } | undefined;
}

export interface Refusal {
  kind: "refused";
  retryAfterMs: number;
  /** Only for the budget of the caller's network. */
  limit?: number;
}

export type Admission =
  /** Counted. `locksIfWrong`: a failure locks the account. */
  | { kind: "admitted"; locksIfWrong?: boolean }
  /** Must not be disclosed. */
  | { kind: "locked" }
  | Refusal;

/** Limits guesses. Each attempt is counted before it is made, so that parallel ones count too. Only `turn` throws. */
export interface Throttle {
  /**
   * Waits until no other attempt at the account, or at the same device of it, is in progress on any replica. Such an attempt
   * counts as a failure until it ends.
   *
   * @param waitMs at most a second.
   * @returns must be called at the end of the attempt.
   * @throws {DomainError} `busy` after too long a wait, or if too many wait.
   */
  turn(guess: Guess, waitMs: number): Promise<() => void>;
  /** Counts a call in all its budgets, or in none if one is used up. */
  spend(call: CostlyCall): Promise<{ kind: "admitted" } | Refusal>;
  /** Counts an attempt in the shared budgets, then in the account's counters. Both steps are atomic. */
  take(guess: Guess): Promise<Admission>;
  /** Clears the counts of the account, this network and this device. Counts of other networks and devices stay. */
  succeed(guess: Guess): Promise<void>;
  /** The attempt had no verdict: it is removed from every count. */
  giveBack(guess: Guess): Promise<void>;
  /** Clears all counts of an account, after a new password or an unlock. */
  clear(account: string): Promise<void>;
  /** Deletes the data of a deleted account. Counts by network and device are under keyed digests and expire within days. */
  forget(account: string): Promise<void>;
  close(): Promise<void>;
}

/** Undefined if all decisions allow the call. */
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

/** The name under which reauthentication within a session is counted. */
export function reauthenticationOf(userId: string): string {
  return `reauthentication ${userId}`;
}

export async function clearGuesses(
  throttle: Pick<Throttle, "clear">,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await Promise.all([throttle.clear(email), throttle.clear(reauthenticationOf(userId))]);
}

export async function forgetGuesses(
  throttle: Pick<Throttle, "forget">,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await Promise.all([throttle.forget(email), throttle.forget(reauthenticationOf(userId))]);
}
