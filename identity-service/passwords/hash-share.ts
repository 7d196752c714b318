import { DomainError } from "../../service-kit/errors.ts";
import { networksOf } from "../../service-kit/network-of.ts";

/** Keeps callers from filling the hash queue for others: what they may have running and waiting at once, in this process. */
export interface HashShare {
  /**
   * @param caller `isKnown`: a device or network that has logged in before, or a session; `clientIp` empty or absent
   *   (a gateway of an earlier version): no network is counted.
   * @throws {DomainError} `busy` if a network of the caller, or all strangers together, have their share already; what
   *   the work throws.
   */
  run<T>(caller: HashCaller, work: () => Promise<T>): Promise<T>;
}

export interface HashCaller {
  clientIp: string | undefined;
  isKnown?: boolean;
}

/** Places in the queue and running. */
export interface HashShares {
  /** Of an IPv4 address, and of a /64, /56 and /48: wider networks get no more, since what is left is for everybody else. */
  maxOfNetwork: number;
  /** Of everybody who is not known. */
  maxOfStrangers: number;
}

const STRANGERS = "strangers";

export function createHashShare({ maxOfNetwork, maxOfStrangers }: HashShares): HashShare {
  const running = new Map<string, number>();
  const add = (key: string, change: number) => {
    const next = (running.get(key) ?? 0) + change;
    if (next === 0) running.delete(key);
    else running.set(key, next);
  };
  return {
    async run({ clientIp = "", isKnown = false }, work) {
      const networks = clientIp === "" ? [] : networksOf(clientIp).map(({ name }) => name);
      // Strangers in the same wide network must not be in the way of who is known.
      const keys = isKnown ? networks.slice(0, 1) : [...networks, STRANGERS];
      const isFull = (key: string) =>
        (running.get(key) ?? 0) >= (key === STRANGERS ? maxOfStrangers : maxOfNetwork);
      if (keys.some(isFull)) throw new DomainError("busy", undefined, { retryAfterMs: 1_000 });
      for (const key of keys) add(key, 1);
      try {
        return await work();
      } finally {
        for (const key of keys) add(key, -1);
      }
    },
  };
}

/** @param places that the hash queue has, running and waiting. */
export function hashSharesOf(places: number): HashShares {
  return {
    maxOfNetwork: Math.max(1, Math.floor(places / 2)),
    maxOfStrangers: Math.max(1, Math.floor((places * 3) / 4)),
  };
}
