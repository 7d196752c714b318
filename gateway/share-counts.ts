import { DomainError } from "../service-kit/errors.ts";
import type { Network } from "../service-kit/network-of.ts";

const RETRY_AFTER_MS = 1_000;

/** What one caller may have open of one kind. */
export interface Share {
  /** What is counted together: a route's calls, or its WebSockets. */
  kind: string;
  /** Who it is counted under: a user, or the networks of an address. */
  callers: readonly Network[];
  max: number;
  /** Places that are free for everybody. Without a number there is no such limit. */
  free?: number;
}

/** Counts what callers have open, so that none has more than its share. */
export class ShareCounts {
  readonly #counts = new Map<string, number>();

  /**
   * Takes a place. A caller may have as many as its share says, and never more than are left free: a hundred callers who
   * take what they can still leave a hundredth for the next one.
   *
   * @returns gives the place back; to be called once.
   * @throws {DomainError} `too_many_requests`.
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
