import { createHmac } from "node:crypto";
import { type Limit, type LimitedBucket, limitTimes } from "../../rate-limit/gcra.ts";
import { type Network, networksOf } from "../../service-kit/network-of.ts";
import type { CostlyCall, Guess, Ladder, ThrottleLimits } from "./throttle.ts";

/** A login at a provider begins with a row for ten minutes, no hash and no mail, and an office begins its day with many. */
const OAUTH_LOGIN_TIMES = 10;
/** All devices of a user together have the budget of this many. */
const DEVICES_OF_USER = 4;
const DOMAIN = "gatehouse throttle";

/** A budget and where it is counted. */
export interface CountedBudget extends LimitedBucket {
  /** Of the caller's own network: the caller may be told. */
  isNetwork?: boolean;
}

/** Everything that one attempt is counted under. */
export interface GuessCounters {
  budgets: CountedBudget[];
  ladders: { key: string; ladder: Ladder }[];
  /** Names the time since the account was cleared: counts that name another one do not hold. */
  epoch: string;
  /** Attempts with the same one wait for each other. */
  turn: string;
  /** What a success clears. */
  cleared: string[];
}

/** Where things are counted. */
export interface Counters {
  ofGuess(guess: Guess): GuessCounters;
  ofCall(call: CostlyCall): CountedBudget[];
  epochOf(account: string): string;
  /** What is stored under the account alone. */
  ofAccount(account: string): string[];
}

/**
 * Names the counters. Their keys hold HMACs: an IPv4 address or an e-mail address could be found from a plain digest by
 * trying all of them.
 *
 * @param secret the same in every replica that counts together.
 */
export function createCounters(limits: ThrottleLimits, secret: Buffer): Counters {
  const digest = (text: string) =>
    createHmac("sha256", secret).update(`${DOMAIN}\n${text}`).digest("base64url").slice(0, 22);
  const accountKey = (account: string) => `a:${digest(account)}`;
  const epochOf = (account: string) => `e:${digest(account)}`;

  /** The budgets of a caller's networks and the one that all of the same standing share. */
  const shared = (
    networks: readonly Network[],
    kind: string,
    isKnown: boolean,
    each: Limit,
    all: Limit,
  ): CountedBudget[] => {
    // Strangers in the same wide network, and strangers in all, cannot use up what those with a standing have.
    const share = isKnown ? `${kind}known:` : kind;
    const [smallest, ...wider] = networks.map(({ name, times }, index) => ({
      kind: `N:${index === 0 ? kind : share}`,
      name: digest(name),
      limit: limitTimes(each, times),
    }));
    const own = smallest === undefined ? [] : [{ ...smallest, isNetwork: true }];
    return [...own, ...wider, { kind: `G:${share}`, name: "", limit: all }];
  };

  function budgetsOf({ clientIp, deviceId, standing }: Guess): CountedBudget[] {
    // Whoever has proven to be the owner before is bounded by a ladder that no stranger touches.
    if (deviceId !== undefined || standing === "session") return [];
    const networks = networksOf(clientIp);
    const budgets = shared(networks, "", standing !== undefined, limits.network, limits.everything);
    // Neighbours must not spray over all accounts of a network; what lies beyond it is no affair of the owner's.
    return standing === "own_network" ? budgets.slice(0, 1) : budgets;
  }

  return {
    ofGuess(guess) {
      const { account, clientIp, deviceId, standing } = guess;
      const who = digest(account);
      const [{ name }] = networksOf(clientIp);
      const network = digest(name);
      const fromAnywhere = { key: accountKey(account), ladder: limits.account };
      const fromNetwork = { key: `n:${who}:${network}`, ladder: limits.accountAndNetwork };
      const own = deviceId === undefined ? undefined : digest(deviceId);
      const ladders =
        own !== undefined
          ? [{ key: `d:${who}:${own}`, ladder: limits.accountAndDevice }]
          : standing === "own_network"
            ? [fromNetwork]
            : [fromAnywhere, fromNetwork];
      const place = own ?? (standing === "own_network" ? network : undefined);
      return {
        budgets: budgetsOf(guess),
        ladders,
        epoch: epochOf(account),
        turn: place === undefined ? `t:${who}` : `t:${who}:${place}`,
        cleared: [...new Set([fromAnywhere.key, fromNetwork.key, ...ladders.map(({ key }) => key)])],
      };
    },

    ofCall({ kind, clientIp = "", isKnown = false, device }) {
      const times = kind === "oauth_login" ? OAUTH_LOGIN_TIMES : 1;
      if (device !== undefined) {
        const each = limitTimes(limits.callsOfDevice, times);
        return [
          { kind: `D:${kind}:`, name: digest(device.id), limit: each },
          { kind: `U:${kind}:`, name: digest(device.userId), limit: limitTimes(each, DEVICES_OF_USER) },
        ];
      }
      const networks = clientIp === "" ? [] : networksOf(clientIp);
      const each = limitTimes(limits.callsOfNetwork, times);
      return shared(networks, `${kind}:`, isKnown, each, limitTimes(limits.calls, times));
    },

    epochOf,
    ofAccount: (account) => [accountKey(account), epochOf(account)],
  };
}

/** The key of a budget where it is stored. */
export function budgetKey({ kind, name }: Pick<CountedBudget, "kind" | "name">): string {
  return kind + name;
}
