import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type Network, networksOf } from "#kit/values/network-of.ts";

export interface CallSharesOptions {
  maxInFlight: number;
  /** Applies to a network of the smallest size. */
  maxInFlightPerNetwork: number;
  maxRefusals: number;
  refusalsPerS: number;
  nowMs: () => number;
}

/** Of a network: 100 at once, then 10 a second. */
export const FORGERIES = { maxRefusals: 100, refusalsPerS: 10 };

const MAX_NETWORKS = 20_000;

export interface Place {
  refused(): void;
  leave(): void;
}

/** No client network can use all slots for unknown tokens. */
export class CallShares {
  readonly #options: CallSharesOptions;
  readonly #inFlight = new Map<string, number>();
  readonly #used = boundedCache<string, { refusals: number; atMs: number }>(MAX_NETWORKS);
  #total = 0;

  constructor(options: CallSharesOptions) {
    this.#options = options;
  }

  /**
   * @throws {DomainError} `too_many_requests` beyond the network's share; `service_unavailable` without a slot.
   */
  enter(clientIp: string | undefined): Place {
    const networks = clientIp === undefined ? [] : networksOf(clientIp);
    for (const network of networks) this.#assertShare(network);
    if (this.#total >= this.#options.maxInFlight) {
      throw new DomainError("service_unavailable", "Too many tokens are being verified", {
        retryAfterMs: 1_000,
      });
    }
    this.#add(networks, 1);
    return {
      refused: () => {
        for (const { name } of networks) {
          this.#used.set(name, { refusals: this.#usedBy(name) + 1, atMs: this.#options.nowMs() });
        }
      },
      leave: () => this.#add(networks, -1),
    };
  }

  #assertShare({ name, times }: Network): void {
    const { maxInFlightPerNetwork, maxRefusals } = this.#options;
    const isWithin =
      (this.#inFlight.get(name) ?? 0) < maxInFlightPerNetwork * times &&
      this.#usedBy(name) < maxRefusals * times;
    if (isWithin) return;
    throw new DomainError("too_many_requests", "Too many unknown tokens from this network", {
      retryAfterMs: 1_000,
    });
  }

  /** Refills no faster for wider networks, so that attackers gain little. */
  #usedBy(name: string): number {
    const used = this.#used.get(name);
    if (used === undefined) return 0;
    const refilled = ((this.#options.nowMs() - used.atMs) / 1_000) * this.#options.refusalsPerS;
    return Math.max(0, used.refusals - refilled);
  }

  #add(networks: readonly Network[], change: 1 | -1): void {
    this.#total += change;
    for (const { name } of networks) {
      const count = (this.#inFlight.get(name) ?? 0) + change;
      if (count > 0) this.#inFlight.set(name, count);
      else this.#inFlight.delete(name);
    }
  }
}
