import { createHmac, createSecretKey, type KeyObject } from "node:crypto";
import { type Network, networksOf } from "#kit/values/network-of.ts";
import { type Limit, type LimitedBucket, limitTimes } from "#rate-limit/gcra.ts";
import type { CostlyCall, Guess, Ladder, RightLogin, ThrottleLimits, WrongPassword } from "./throttle.ts";

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

/** HMACs, because plain digests of addresses can be enumerated. */
export class ThrottleCounters {
  readonly #limits: ThrottleLimits;
  // Made once: Node makes one for each HMAC with plain bytes, which takes five times as long.
  readonly #key: KeyObject;

  constructor(limits: ThrottleLimits, secret: Buffer) {
    this.#limits = limits;
    this.#key = createSecretKey(secret);
  }

  ofGuess(guess: Guess): GuessCounters {
    const { account, clientIp, deviceId, standing } = guess;
    const who = this.#digest(account);
    const network = this.#digest(networksOf(clientIp)[0].name);
    const fromAnywhere = { key: `a:${who}`, ladder: this.#limits.account };
    const fromNetwork = { key: `n:${who}:${network}`, ladder: this.#limits.accountAndNetwork };
    const own = deviceId === undefined ? undefined : this.#digest(deviceId);
    const ladders =
      own !== undefined
        ? [{ key: `d:${who}:${own}`, ladder: this.#limits.accountAndDevice }]
        : standing === "own_network"
          ? [fromNetwork]
          : [fromAnywhere, fromNetwork];
    const place = own ?? (standing === "own_network" ? network : undefined);
    return {
      budgets: this.#budgetsOfGuess(guess),
      ladders,
      epoch: `e:${who}`,
      turn: place === undefined ? `t:${who}` : `t:${who}:${place}`,
      cleared: [...new Set([fromAnywhere.key, fromNetwork.key, ...ladders.map(({ key }) => key)])],
    };
  }

  ofCall(call: CostlyCall | RightLogin | WrongPassword): CountedBudget[] {
    if (call.kind === "wrong_password") return this.#budgetsOfWrongPassword(call);
    if ("account" in call) return this.#budgetsOfLogin(call);
    const { kind, clientIp = "", isKnown = false, device } = call;
    const times = CHEAP_LOGINS.has(kind) ? CHEAP_LOGIN_TIMES : 1;
    if (device !== undefined) {
      const each = limitTimes(this.#limits.callsOfDevice, times);
      const all = limitTimes(each, DEVICES_OF_USER);
      return [
        { kind: `D:${kind}:`, name: this.#digest(device.id), limit: each },
        { kind: `U:${kind}:`, name: this.#digest(device.userId), limit: all },
      ];
    }
    const networks = clientIp === "" ? [] : networksOf(clientIp);
    const each = limitTimes(this.#limits.callsOfNetwork, times);
    const all = limitTimes(this.#limits.calls, times);
    return this.#shared(networks, { kind: `${kind}:`, isKnown, each, all });
  }

  epochOf(account: string): string {
    return `e:${this.#digest(account)}`;
  }

  /** The ladder of unknown devices and networks, and the epoch. */
  ofAccount(account: string): [ladder: string, epoch: string] {
    return [`a:${this.#digest(account)}`, this.epochOf(account)];
  }

  #budgetsOfGuess({ clientIp, deviceId, standing }: Guess): CountedBudget[] {
    // Their ladder bounds them.
    if (deviceId !== undefined || standing === "session") return [];
    const { network: each, everything: all } = this.#limits;
    const isKnown = standing !== undefined;
    const budgets = this.#shared(networksOf(clientIp), { kind: "", isKnown, each, all });
    // Limits password spraying. Wider limits do not apply to the owner.
    return standing === "own_network" ? budgets.slice(0, 1) : budgets;
  }

  /** Known devices and the account's own networks share nothing with strangers, who may have the password. */
  #budgetsOfLogin({ kind, account, clientIp, deviceId, standing }: RightLogin): CountedBudget[] {
    const { logins } = this.#limits;
    const place = deviceId ?? networksOf(clientIp)[0].name;
    const name = this.#digest(`${account}\n${place}`);
    const own = { kind: `R:${kind}:`, name, limit: logins, isNetwork: true };
    if (deviceId !== undefined || standing === "own_network") return [own];
    const limit = limitTimes(logins, STRANGERS_OF_ACCOUNT);
    return [own, { kind: `S:${kind}:`, name: this.#digest(account), limit }];
  }

  /** Of what the caller typed and where from. No account, device or success changes it, so it tells nothing of them. */
  #budgetsOfWrongPassword({ account, clientIp }: WrongPassword): CountedBudget[] {
    const name = this.#digest(`${account}\n${networksOf(clientIp)[0].name}`);
    return [{ kind: "W:", name, limit: this.#limits.wrongPasswords }];
  }

  #shared(
    networks: readonly Network[],
    { kind, isKnown, each, all }: { kind: string; isKnown: boolean; each: Limit; all: Limit },
  ): CountedBudget[] {
    // So that unknown callers cannot exhaust the budgets of known ones.
    const share = isKnown ? `${kind}known:` : kind;
    const [smallest, ...wider] = networks.map(({ name, times }, index) => ({
      kind: `N:${index === 0 ? kind : share}`,
      name: this.#digest(name),
      limit: limitTimes(each, times),
    }));
    const own = smallest === undefined ? [] : [{ ...smallest, isNetwork: true }];
    return [...own, ...wider, { kind: `G:${share}`, name: "", limit: all }];
  }

  #digest(text: string): string {
    return createHmac("sha256", this.#key).update(`${DOMAIN}\n${text}`).digest("base64url").slice(0, 22);
  }
}

export function budgetKey({ kind, name }: Pick<CountedBudget, "kind" | "name">): string {
  return kind + name;
}
