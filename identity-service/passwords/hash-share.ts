import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { networksOf } from "#kit/values/network-of.ts";

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

export interface HashShareOptions extends HashShares {
  /** Whose share was used up. */
  onRefusal?: (share: "network" | "strangers") => void;
}

const STRANGERS = "strangers";

export function createHashShare({
  maxOfNetwork,
  maxOfStrangers,
  onRefusal = () => undefined,
}: HashShareOptions): HashShare {
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
      const full = keys.find(isFull);
      if (full !== undefined) {
        onRefusal(full === STRANGERS ? "strangers" : "network");
        throw new DomainError("busy", undefined, { retryAfterMs: 1_000 });
      }
      for (const key of keys) add(key, 1);
      try {
        return await work();
      } finally {
        for (const key of keys) add(key, -1);
      }
    },
  };
}

export function countShareRefusals(metrics: Metrics): NonNullable<HashShareOptions["onRefusal"]> {
  const refusals = metrics.counter(
    "gatehouse_password_hash_share_refusals_total",
    "Password hashes refused as busy because their network, or all strangers, had as many as they may.",
    ["share"],
  );
  return (share) => refusals.inc({ share });
}

export function hashSharesOf(places: number): HashShares {
  return {
    maxOfNetwork: Math.max(1, Math.floor(places / 2)),
    maxOfStrangers: Math.max(1, Math.floor((places * 3) / 4)),
  };
}
