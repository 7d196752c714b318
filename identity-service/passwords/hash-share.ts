import { DomainError } from "../../service-kit/errors.ts";
import { networksOf } from "../../service-kit/network-of.ts";

/** Limits the queue entries of each network, and of all unknown callers. */
export interface HashShare {
  /** @throws {DomainError} `busy`. */
  run<T>(caller: HashCaller, work: () => Promise<T>): Promise<T>;
}

export interface HashCaller {
  clientIp: string | undefined;
  isKnown?: boolean;
}

/** Running and waiting. */
export interface HashShares {
  /** Per IPv4 address or IPv6 /64, /56 and /48. */
  maxOfNetwork: number;
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
      // Unknown callers of a wide network must not block known ones.
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

export function hashSharesOf(places: number): HashShares {
  return {
    maxOfNetwork: Math.max(1, Math.floor(places / 2)),
    maxOfStrangers: Math.max(1, Math.floor((places * 3) / 4)),
  };
}
