import { LRUCache } from "lru-cache";
import { DomainError } from "../service-kit/errors.ts";
import { type Network, networksOf } from "../service-kit/network-of.ts";

export interface CallSharesOptions {
  /** Calls under way at a time, of everybody. */
  maxInFlight: number;
  /** Of one network of the smallest size. */
  maxInFlightPerNetwork: number;
  /** Refused tokens in a row that one network of the smallest size may have asked for. */
  maxRefusals: number;
  /** How fast that fills up again. */
  refusalsPerS: number;
  /** A monotonic clock, in milliseconds. */
  nowMs: () => number;
}

const MAX_NETWORKS = 20_000;

/** A place among the calls under way. */
export interface Place {
  /** The token was refused: its networks have used up one of their refusals. */
  refused(): void;
  leave(): void;
}

/** Shares the calls for unknown tokens among the networks that bring them, so that none takes all. */
export class CallShares {
  readonly #options: CallSharesOptions;
  readonly #inFlight = new Map<string, number>();
  /** How many refusals a network has used up, and when that was so. */
  readonly #used = new LRUCache<string, { refusals: number; atMs: number }>({ max: MAX_NETWORKS });
  #total = 0;

  constructor(options: CallSharesOptions) {
    this.#options = options;
  }

  /**
   * Takes a place for a call.
   *
   * @param clientIp undefined if it is not known: then only the places of all are counted.
   * @throws {DomainError} `too_many_requests` if its networks have had too many tokens refused or too many calls under way;
   *   `service_unavailable` if all places are taken.
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

  /** Wider networks refill no faster than one of the smallest size: they are wider to have room, not to be attacked from. */
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
