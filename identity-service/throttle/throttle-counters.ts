import { createHmac, createSecretKey } from "node:crypto";
import { type Network, networksOf } from "#kit/values/network-of.ts";
import { type Limit, type LimitedBucket, limitTimes } from "#rate-limit/gcra.ts";
import type { CostlyCall, Guess, Ladder, RightLogin, ThrottleLimits } from "./throttle.ts";

/** These logins are cheap at first, and offices begin many at once. */
const CHEAP_LOGINS: ReadonlySet<CostlyCall["kind"]> = new Set(["oauth_login", "passkey_login"]);
const CHEAP_LOGIN_TIMES = 10;
/** Shared by all devices of a user. */
const DEVICES_OF_USER = 4;
/** Shared by all unknown networks of an account. */
const STRANGERS_OF_ACCOUNT = 4;
const DOMAIN = "gatehouse throttle";

export interface CountedBudget extends LimitedBucket {
  /** May be disclosed to the caller. */
  isNetwork?: boolean;
}

interface GuessCounters {
  budgets: CountedBudget[];
  ladders: { key: string; ladder: Ladder }[];
  /** Changes when the account is cleared. */
  epoch: string;
  /** Attempts with the same turn wait for each other. */
  turn: string;
  cleared: string[];
}

export interface Counters {
  ofGuess(guess: Guess): GuessCounters;
  ofCall(call: CostlyCall | RightLogin): CountedBudget[];
  epochOf(account: string): string;
  /** The ladder of unknown devices and networks, and the epoch. */
  ofAccount(account: string): [ladder: string, epoch: string];
}

/** HMACs, because plain digests of addresses can be enumerated. */
export function createCounters(limits: ThrottleLimits, secret: Buffer): Counters {
  // Made once: Node makes one for each HMAC with plain bytes, which takes five times as long.
  const key = createSecretKey(secret);
  const digest = (text: string) =>
    createHmac("sha256", key).update(`${DOMAIN}\n${text}`).digest("base64url").slice(0, 22);
  const accountKey = (account: string) => `a:${digest(account)}`;
  const epochOf = (account: string) => `e:${digest(account)}`;

  const shared = (
    networks: readonly Network[],
    kind: string,
    isKnown: boolean,
    each: Limit,
    all: Limit,
  ): CountedBudget[] => {
    // So that unknown callers cannot exhaust the budgets of known ones.
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
    // Their ladder bounds them.
    if (deviceId !== undefined || standing === "session") return [];
    const networks = networksOf(clientIp);
    const budgets = shared(networks, "", standing !== undefined, limits.network, limits.everything);
    // Limits password spraying. Wider limits do not apply to the owner.
    return standing === "own_network" ? budgets.slice(0, 1) : budgets;
  }

  /** Known devices and the account's own networks share nothing with strangers, who may have the password. */
  function budgetsOfLogin({ kind, account, clientIp, deviceId, standing }: RightLogin): CountedBudget[] {
    const place = deviceId ?? networksOf(clientIp)[0].name;
    const name = digest(`${account}\n${place}`);
    const own = { kind: `R:${kind}:`, name, limit: limits.logins, isNetwork: true };
    if (deviceId !== undefined || standing === "own_network") return [own];
    const limit = limitTimes(limits.logins, STRANGERS_OF_ACCOUNT);
    return [own, { kind: `S:${kind}:`, name: digest(account), limit }];
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

    ofCall(call) {
      if ("account" in call) return budgetsOfLogin(call);
      const { kind, clientIp = "", isKnown = false, device } = call;
      const times = CHEAP_LOGINS.has(kind) ? CHEAP_LOGIN_TIMES : 1;
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

export function budgetKey({ kind, name }: Pick<CountedBudget, "kind" | "name">): string {
  return kind + name;
}
