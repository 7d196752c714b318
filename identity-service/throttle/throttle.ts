import { type Decision, type Limit, limitOf } from "../../rate-limit/gcra.ts";
import { DomainError } from "../../service-kit/errors.ts";

/**
 * How failures on one thing slow down what comes next: none wait up to `freeFailures`, each further one doubles the
 * wait, and after `maxFailures` nothing goes on until a success or a reset.
 */
export interface Ladder {
  freeFailures: number;
  maxFailures: number;
  firstWaitMs: number;
  maxWaitMs: number;
}

export interface ThrottleLimits {
  /** On one account, from anywhere. */
  account: Ladder;
  /** On one account from one network. */
  accountAndNetwork: Ladder;
  /** On one account from one of its known devices, in place of the two above. */
  accountAndDevice: Ladder;
  /** From one network, on any accounts. Wider networks have a multiple of it. */
  network: Limit;
  /** From all networks where nobody has logged in lately; and as much again from all where somebody has. */
  everything: Limit;
  /** Calls of one kind from one network, whatever comes of them. Wider networks have a multiple of it. */
  callsOfNetwork: Limit;
  /** Calls of one kind, likewise. */
  calls: Limit;
  /** Calls of one kind with one device's token. All devices of a user together have four times as many. */
  callsOfDevice: Limit;
}

const LADDER: Ladder = { freeFailures: 4, maxFailures: 100, firstWaitMs: 30_000, maxWaitMs: 3_600_000 };
/** Of one network or device: never shut for good, because the owner may be the one behind it. */
const NEVER_SHUT: Ladder = { ...LADDER, maxFailures: 1_000_000_000 };
const WINDOW_MS = 15 * 60_000;
/** Of one network two kinds ask for mails: together they must not fill the 200 places of the work after answers. */
export const CALLS_OF_NETWORK = 60;
export const CALLS = 20_000;
/** Small, to limit what a botnet can do with a copied token. */
const CALLS_OF_DEVICE = 5;

/** Each in 15 minutes. */
export interface Budgets {
  /** Failures from one network. */
  network: number;
  /** Failures in all. */
  everything: number;
  /** Calls of one kind from one network. */
  callsOfNetwork?: number;
  /** Calls of one kind in all. */
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

/** What a replica's share never falls below: a typo or two must not lock an owner out, nor a day's typos shut the account. */
const LEAST = { freeFailures: 2, maxFailures: 25, network: 25, callsOfNetwork: 15, callsOfDevice: 2 };

/**
 * A replica's part of the limits, for when replicas cannot count together. What protects owners from being kept out has
 * a floor: with more replicas than whole / floor, somebody who spreads guesses over all of them gets more than the whole.
 */
export function shareOf(limits: ThrottleLimits, replicas: number): ThrottleLimits {
  const part = (count: number, least = 1) => Math.max(Math.min(count, least), Math.floor(count / replicas));
  const ladder = (whole: Ladder): Ladder => ({
    ...whole,
    // The failure that begins the waiting counts as well.
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

/** How long a ladder makes the next attempt wait. Without end after `maxFailures`. */
export function ladderWaitMs(ladder: Ladder, failures: number): number {
  if (failures >= ladder.maxFailures) return Number.POSITIVE_INFINITY;
  if (failures <= ladder.freeFailures) return 0;
  return Math.min(ladder.firstWaitMs * 2 ** (failures - ladder.freeFailures - 1), ladder.maxWaitMs);
}

/** The longest that a ladder's count is kept after its last attempt: that of an account that is shut. */
export const LADDER_MEMORY_MS = 30 * 24 * 3_600_000;
const DAY_MS = 24 * 3_600_000;

/**
 * How long a ladder's count is kept after its last attempt: a day for each `freeFailures` of it, 30 days once it is
 * shut. So a guess costs the store a key for a day, and pausing until the count is forgotten never gives more than
 * `freeFailures` guesses a day. Always more than twice the wait.
 */
export function ladderMemoryMs(ladder: Ladder, failures: number): number {
  const days = Math.ceil(failures / Math.max(1, ladder.freeFailures));
  return Math.min(LADDER_MEMORY_MS, Math.max(days * DAY_MS, 2 * ladderWaitMs(ladder, failures)));
}

/** Who tries to log in as whom. */
export interface Guess {
  /** The address as typed, canonical where it can be; whether there is such an account does not matter. */
  account: string;
  /** The client's address; may be empty. */
  clientIp: string;
  /** The device, if it is known to belong to the account. */
  deviceId?: string | undefined;
  /** What speaks for whoever guesses without a known device. Default: nothing. */
  standing?: Standing | undefined;
}

/**
 * What speaks for a caller. Each has a share of its own, so that nobody can use up what is kept for the better known:
 *
 * - `session`: logged in as the user whose password is asked for;
 * - `own_network`: the account has logged in from the network lately;
 * - `used_network`: somebody has logged in from the network lately.
 */
export type Standing = "session" | "own_network" | "used_network";

/** A call without a login that costs a hash, a mail or a row. */
export interface CostlyCall {
  kind: "register" | "forgot_password" | "resend_verification" | "reset_password" | "oauth_login";
  /** The client's address. Empty or absent (a gateway of an earlier version): counted only against everybody's budget. */
  clientIp?: string | undefined;
  /** Whether somebody has logged in from the network lately, or holds a good link: counted apart from strangers. */
  isKnown?: boolean;
  /** The known device of the caller. Counted against the budgets of the device and its user, not of a network or everybody. */
  device?: { id: string; userId: string } | undefined;
}

/** The network's budget, or one that is shared with others, is used up. */
export interface Refusal {
  kind: "refused";
  retryAfterMs: number;
  /** The network's budget, if it is the network's. */
  limit?: number;
}

export type Admission =
  /** Counted; go on, and tell the throttle if it turns out to be no guess. `locksIfWrong`: the next one has to wait. */
  | { kind: "admitted"; locksIfWrong?: boolean }
  /** The account's counters refuse. Whether they do is told to nobody. */
  | { kind: "locked" }
  | Refusal;

/** Limits guesses. An attempt is counted before it is carried out, so that a thousand at once are a thousand. */
export interface Throttle {
  /**
   * Waits until no other attempt on the same account (or on the same device of it) is under way, on any replica: an
   * attempt is counted as a failure while it is under way, and the next one must find what it came to. Whoever waits
   * is not told by what count, nor whether there is such an account.
   *
   * @param waitMs how long, at most a second.
   * @returns to be called when the attempt is over.
   * @throws {DomainError} `busy` if the wait got too long, or too many wait.
   */
  turn(guess: Guess, waitMs: number): Promise<() => void>;
  /**
   * Counts a call against the budgets of its kind: the networks' and everybody's, as one atomic step. What is refused
   * is not counted. Never throws.
   */
  spend(call: CostlyCall): Promise<{ kind: "admitted" } | Refusal>;
  /**
   * Counts an attempt against the budgets that its caller shares with others, then against the account's counters, each
   * as one atomic step: of any number at once no more than the limits allow are admitted. What is refused is not
   * counted. Never throws.
   */
  take(guess: Guess): Promise<Admission>;
  /**
   * The password was right: the account's own count, its network's and its device's are cleared, the budgets get the
   * attempt back. What other networks and devices have failed stays: they have proven nothing. Never throws.
   */
  succeed(guess: Guess): Promise<void>;
  /** It came to no verdict (busy, unavailable): every counter gets the attempt back. Never throws. */
  giveBack(guess: Guess): Promise<void>;
  /**
   * The account has a new password, or an administrator has unlocked it: all its counts are cleared, those of every
   * network and device too, one of which is the owner's. Never throws.
   *
   * @param account canonical address.
   */
  clear(account: string): Promise<void>;
  /**
   * The account is gone: deletes what is stored about its address. Counts by network and device cannot be listed; they
   * are under keyed digests, do not hold any more, and end by themselves within days. Never throws.
   */
  forget(account: string): Promise<void>;
  close(): Promise<void>;
}

/** The refusal that some decisions come to; undefined if all of them allow the call. */
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

/** What attempts to prove oneself again, within a session, are counted under. */
export function reauthenticationOf(userId: string): string {
  return `reauthentication ${userId}`;
}

/** Forgets the wrong guesses at an account: at its login, and within its sessions. */
export async function clearGuesses(
  throttle: Pick<Throttle, "clear">,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await Promise.all([throttle.clear(email), throttle.clear(reauthenticationOf(userId))]);
}

/** Deletes what is stored about the guesses at an account that is gone. */
export async function forgetGuesses(
  throttle: Pick<Throttle, "forget">,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await Promise.all([throttle.forget(email), throttle.forget(reauthenticationOf(userId))]);
}
