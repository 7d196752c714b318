import { DomainError } from "#kit/values/errors.ts";
import type { Network } from "#kit/values/network-of.ts";

const RETRY_AFTER_MS = 1_000;

export interface Share {
  /** Counted separately: the calls of a route, or its WebSockets. */
  kind: string;
  /** The user, or the networks of the client's address. */
  callers: readonly Network[];
  max: number;
  /** Free places of all callers together. */
  free?: number;
}

export class ShareCounts {
  readonly #counts = new Map<string, number>();

  /**
   * Also limits a caller to the places that are free: a hundred greedy callers still leave room for the next.
   * @returns releases the place; call it once. @throws {DomainError} `too_many_requests`.
   */
  enter({ kind, callers, max, free = Number.POSITIVE_INFINITY }: Share): () => void {
    const keys: string[] = [];
    for (const { name, times } of callers) {
      const key = `${kind} ${name}`;
      if ((this.#counts.get(key) ?? 0) >= Math.min(max * times, Math.max(free, 1))) {
        throw new DomainError("too_many_requests", undefined, { retryAfterMs: RETRY_AFTER_MS });
      }
      keys.push(key);
    }
    for (const key of keys) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    return () => this.#leave(keys);
  }

  #leave(keys: readonly string[]): void {
    for (const key of keys) {
      const left = (this.#counts.get(key) ?? 1) - 1;
      if (left === 0) this.#counts.delete(key);
      else this.#counts.set(key, left);
    }
  }
}

export interface Place {
  /** Call once. `wasBusy` keeps the place taken for as long as a busy service wants to be left alone. */
  leave(wasBusy: boolean): void;
}

/**
 * How many logins of strangers may be under way. A storm of them, each from a network of its own, passes the other limits
 * until those are used up, and what identity-service then refuses as busy has cost most of its work.
 */
export class StrangerPlaces {
  readonly #max: number;
  readonly #shares = new ShareCounts();
  #taken = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  /** @throws {DomainError} `busy` without a free place; `too_many_requests` if a network has as many as are free. */
  enter(callers: readonly Network[]): Place {
    const free = this.#max - this.#taken;
    if (free <= 0) throw new DomainError("busy", undefined, { retryAfterMs: RETRY_AFTER_MS });
    const leaveShare = this.#shares.enter({ kind: "", callers, max: this.#max, free });
    this.#taken += 1;
    const leave = () => {
      leaveShare();
      this.#taken -= 1;
    };
    return { leave: (wasBusy) => (wasBusy ? void setTimeout(leave, RETRY_AFTER_MS).unref() : leave()) };
  }
}
