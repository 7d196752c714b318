import { createHash } from "node:crypto";
import { networkOf } from "./network-of.ts";

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
}

const LADDER: Ladder = { freeFailures: 4, maxFailures: 100, firstWaitMs: 30_000, maxWaitMs: 3_600_000 };
/** Of one network or device: never shut, because neither a reset nor an administrator opens it again. */
const WITHOUT_END: Ladder = { ...LADDER, maxFailures: 1_000_000_000 };
const WINDOW_MS = 15 * 60_000;

/** @see NIST SP 800-63B-4 §3.2.2 for the hundred. */
export function throttleLimits(budgets: { network: number; everything: number }): ThrottleLimits {
  return {
    account: LADDER,
    accountAndNetwork: { ...WITHOUT_END, maxWaitMs: 24 * 3_600_000 },
    accountAndDevice: WITHOUT_END,
    network: { budget: budgets.network, windowMs: WINDOW_MS },
    everything: { budget: budgets.everything, windowMs: WINDOW_MS },
  };
}

/** A replica's part of the limits, for when replicas cannot count together. Nothing becomes less than one. */
export function shareOf(limits: ThrottleLimits, replicas: number): ThrottleLimits {
  const part = (count: number) => Math.max(1, Math.floor(count / replicas));
  const ladder = (whole: Ladder): Ladder => ({
    ...whole,
    // The failure that begins the waiting counts as well.
    freeFailures: part(whole.freeFailures + 1) - 1,
    maxFailures: part(whole.maxFailures),
  });
  const bucket = (whole: Bucket): Bucket => ({ ...whole, budget: part(whole.budget) });
  return {
    account: ladder(limits.account),
    accountAndNetwork: ladder(limits.accountAndNetwork),
    accountAndDevice: ladder(limits.accountAndDevice),
    network: bucket(limits.network),
    everything: bucket(limits.everything),
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

export type Admission =
  /** Counted; go on, and tell the throttle if it turns out to be no guess. */
  | { kind: "admitted" }
  /** The account's counters refuse. Whether they do is told to nobody. */
  | { kind: "locked" }
  /** The network's or everybody's do. */
  | { kind: "refused"; retryAfterMs: number };

/** Limits guesses. An attempt is counted before it is carried out, so that a thousand at once are a thousand. */
export interface Throttle {
  /**
   * Counts an attempt against everybody's and the network's budgets, then against the account's counters, each as one
   * atomic step: of any number at once no more than the limits allow are admitted. What is refused is not counted.
   * Never throws.
   */
  take(guess: Guess): Promise<Admission>;
  /** The password was right: the account's counters are cleared, the budgets get the attempt back. Never throws. */
  succeed(guess: Guess): Promise<void>;
  /** It came to no verdict (busy, unavailable): every counter gets the attempt back. Never throws. */
  giveBack(guess: Guess): Promise<void>;
  /**
   * The account has a new password, or an administrator has unlocked it: its own count is cleared. Never throws.
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
      { key: `N:${network}`, bucket: limits.network },
      { key: "G", bucket: limits.everything },
    ],
    ladders,
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
