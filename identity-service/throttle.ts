import { createHash } from "node:crypto";
import { DomainError } from "../service-kit/errors.ts";
import { networkOf } from "../service-kit/network-of.ts";

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

/** So many failures at once, and so many more over each window as it passes. */
export interface Bucket {
  budget: number;
  windowMs: number;
}

export interface ThrottleLimits {
  /** On one account, from anywhere. */
  account: Ladder;
  /** On one account from one network. */
  accountAndNetwork: Ladder;
  /** On one account from one of its known devices, in place of the two above. */
  accountAndDevice: Ladder;
  /** From one network, on any accounts. */
  network: Bucket;
  /** From everywhere, on any accounts. */
  everything: Bucket;
  /** Calls of one kind from one network, whatever comes of them. */
  callsOfNetwork: Bucket;
  /** Calls of one kind from everywhere. */
  calls: Bucket;
}

const LADDER: Ladder = { freeFailures: 4, maxFailures: 100, firstWaitMs: 30_000, maxWaitMs: 3_600_000 };
/** Of one network or device: never shut for good, because the owner may be the one behind it. */
const WITHOUT_END: Ladder = { ...LADDER, maxFailures: 1_000_000_000 };
const WINDOW_MS = 15 * 60_000;
/** Of one network two kinds ask for mails: together they must not fill the 200 places of the work after answers. */
export const CALLS_OF_NETWORK = 60;
export const CALLS = 20_000;
/** A login at a provider begins with a row for ten minutes, no hash and no mail, and an office begins its day with many. */
const OAUTH_LOGIN_TIMES = 10;

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
    accountAndNetwork: { ...WITHOUT_END, maxWaitMs: 24 * 3_600_000 },
    accountAndDevice: WITHOUT_END,
    network: { budget: budgets.network, windowMs: WINDOW_MS },
    everything: { budget: budgets.everything, windowMs: WINDOW_MS },
    callsOfNetwork: { budget: budgets.callsOfNetwork ?? CALLS_OF_NETWORK, windowMs: WINDOW_MS },
    calls: { budget: budgets.calls ?? CALLS, windowMs: WINDOW_MS },
  };
}

/** Failures in a row that shut an account for good are never fewer, however many replicas share the limits. */
const LEAST_MAX_FAILURES = 5;

/**
 * A replica's part of the limits, for when replicas cannot count together. No budget becomes less than one, and no
 * account is shut for good by fewer than five failures, though beyond 20 replicas that makes more than a hundred.
 */
export function shareOf(limits: ThrottleLimits, replicas: number): ThrottleLimits {
  const part = (count: number) => Math.max(1, Math.floor(count / replicas));
  const ladder = (whole: Ladder): Ladder => ({
    ...whole,
    // The failure that begins the waiting counts as well.
    freeFailures: part(whole.freeFailures + 1) - 1,
    maxFailures: Math.max(LEAST_MAX_FAILURES, part(whole.maxFailures)),
  });
  const bucket = (whole: Bucket): Bucket => ({ ...whole, budget: part(whole.budget) });
  return {
    account: ladder(limits.account),
    accountAndNetwork: ladder(limits.accountAndNetwork),
    accountAndDevice: ladder(limits.accountAndDevice),
    network: bucket(limits.network),
    everything: bucket(limits.everything),
    callsOfNetwork: bucket(limits.callsOfNetwork),
    calls: bucket(limits.calls),
  };
}

/** How long a ladder makes the next attempt wait. Without end after `maxFailures`. */
export function ladderWaitMs(ladder: Ladder, failures: number): number {
  if (failures >= ladder.maxFailures) return Number.POSITIVE_INFINITY;
  if (failures <= ladder.freeFailures) return 0;
  return Math.min(ladder.firstWaitMs * 2 ** (failures - ladder.freeFailures - 1), ladder.maxWaitMs);
}

/** Who tries to log in as whom. */
export interface Guess {
  /** The address as typed, canonical where it can be; whether there is such an account does not matter. */
  account: string;
  /** The client's address; may be empty. */
  clientIp: string;
  /** The device, if it is known to belong to the account. */
  deviceId?: string | undefined;
}

/** A call without a login that costs a hash, a mail or a row. */
export interface CostlyCall {
  kind: "register" | "forgot_password" | "resend_verification" | "reset_password" | "oauth_login";
  /** The client's address. Empty or absent (a gateway of an earlier version): counted only against everybody's budget. */
  clientIp?: string | undefined;
}

/** The network's or everybody's budget is used up. */
export interface Refusal {
  kind: "refused";
  retryAfterMs: number;
  /** The network's budget, if it is the network's. */
  limit?: number;
}

export type Admission =
  /** Counted; go on, and tell the throttle if it turns out to be no guess. */
  | { kind: "admitted" }
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
   * Counts a call against the budgets of its kind: the network's and everybody's, as one atomic step. What is refused
   * is not counted. Never throws.
   */
  spend(call: CostlyCall): Promise<{ kind: "admitted" } | Refusal>;
  /**
   * Counts an attempt against everybody's and the network's budgets, then against the account's counters, each as one
   * atomic step: of any number at once no more than the limits allow are admitted. What is refused is not counted.
   * Never throws.
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
  close(): Promise<void>;
}

/** The counter of an account from anywhere. */
export function accountKey(account: string): string {
  return `a:${digest(account)}`;
}

/** What names the time since an account was cleared: counts that name another one do not hold. */
export function epochKey(account: string): string {
  return `e:${digest(account)}`;
}

/** The budgets of a call. */
export function bucketsOf(limits: ThrottleLimits, { kind, clientIp = "" }: CostlyCall) {
  const times = kind === "oauth_login" ? OAUTH_LOGIN_TIMES : 1;
  const grown = ({ budget, windowMs }: Bucket): Bucket => ({ budget: budget * times, windowMs });
  const everybody = { key: `G:${kind}`, bucket: grown(limits.calls) };
  if (clientIp === "") return [everybody];
  const key = `N:${kind}:${digest(networkOf(clientIp))}`;
  return [{ key, bucket: grown(limits.callsOfNetwork), isNetwork: true }, everybody];
}

/** @param over the budgets that are used up, and how long each makes wait. */
export function refusalOf(over: readonly { waitMs: number; bucket: Bucket; isNetwork?: boolean }[]): Refusal {
  const [longest] = over.toSorted((a, b) => b.waitMs - a.waitMs);
  if (longest === undefined) throw new Error("nothing is used up");
  const retryAfterMs = Math.ceil(longest.waitMs);
  return { kind: "refused", retryAfterMs, ...(longest.isNetwork && { limit: longest.bucket.budget }) };
}

/** @throws {DomainError} `too_many_requests` unless the call is within its budgets. Before it costs anything. */
export async function spendOrRefuse(throttle: Pick<Throttle, "spend">, call: CostlyCall): Promise<void> {
  const spending = await throttle.spend(call);
  if (spending.kind === "refused") throw tooManyRequests(spending);
}

export function tooManyRequests({ retryAfterMs, limit }: Refusal): DomainError {
  return new DomainError("too_many_requests", undefined, {
    retryAfterMs,
    ...(limit !== undefined && { limit }),
  });
}

/** The counters of a guess. Keys hold digests: whoever reads the store reads no addresses. */
export function countersOf(limits: ThrottleLimits, { account, clientIp, deviceId }: Guess) {
  const who = digest(account);
  const network = digest(networkOf(clientIp));
  const ladders =
    deviceId === undefined
      ? [
          { key: accountKey(account), ladder: limits.account },
          { key: `n:${who}:${network}`, ladder: limits.accountAndNetwork },
        ]
      : [{ key: `d:${who}:${digest(deviceId)}`, ladder: limits.accountAndDevice }];
  return {
    buckets: [
      { key: `N:${network}`, bucket: limits.network, isNetwork: true },
      { key: "G", bucket: limits.everything },
    ],
    ladders,
    epoch: epochKey(account),
    turn: `t:${who}${deviceId === undefined ? "" : `:${digest(deviceId)}`}`,
    /** What a success clears. */
    cleared: [...new Set([accountKey(account), `n:${who}:${network}`, ...ladders.map(({ key }) => key)])],
  };
}

/** How long a ladder's count is kept after its last attempt. */
export const LADDER_MEMORY_MS = 30 * 24 * 3_600_000;

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** What attempts to prove oneself again, within a session, are counted under. */
export function reauthenticationOf(userId: string): string {
  return `reauthentication ${userId}`;
}

/** Forgets the wrong guesses at an account: at its login, and within its sessions. */
export async function clearGuesses(
  throttle: { clear(account: string): Promise<void> },
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await Promise.all([throttle.clear(email), throttle.clear(reauthenticationOf(userId))]);
}
