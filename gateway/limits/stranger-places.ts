import { DomainError } from "#kit/values/errors.ts";
import type { Network } from "#kit/values/network-of.ts";
import { ShareCounts } from "./share-counts.ts";

const RETRY_AFTER_MS = 1_000;

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
