const FAILURES_TO_OPEN = 5;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Keeps calls from an upstream that fails. Five failures in a row open it; after a pause one call at a time
 * tries, and its success closes it. Each failed try doubles the pause, up to 30 s.
 *
 * Every call that was let through must end in exactly one of `succeeded`, `failed` or `abandoned`.
 */
export class CircuitBreaker {
  #failures = 0;
  #pauseMs = FIRST_PAUSE_MS;
  #closedAgainMs = 0;
  #isOpen = false;
  #isTrying = false;

  get state(): "closed" | "half-open" | "open" {
    if (!this.#isOpen) return "closed";
    return this.#isTrying ? "half-open" : "open";
  }

  /** Whether a call may go. @param nowMs of a monotonic clock. */
  letThrough(nowMs: number): boolean {
    if (!this.#isOpen) return true;
    if (this.#isTrying || nowMs < this.#closedAgainMs) return false;
    this.#isTrying = true;
    return true;
  }

  succeeded(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#isTrying = false;
    this.#pauseMs = FIRST_PAUSE_MS;
  }

  /** @param nowMs of the same clock. */
  failed(nowMs: number): void {
    this.#failures += 1;
    if (this.#isOpen) {
      // What was under way when it opened says nothing new.
      if (!this.#isTrying) return;
      this.#isTrying = false;
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    } else if (this.#failures < FAILURES_TO_OPEN) return;
    this.#isOpen = true;
    this.#closedAgainMs = nowMs + this.#pauseMs;
  }

  /** The call ended without telling anything of the upstream. */
  abandoned(): void {
    this.#isTrying = false;
  }
}
