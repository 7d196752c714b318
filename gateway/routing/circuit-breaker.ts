const FAILURES_TO_OPEN = 5;
/** Of one caller. A caller may know a request that always fails. */
const FAILURES_THAT_COUNT = 2;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Keeps calls from an upstream that fails. Five failures in a row open it, of which two at most of one caller; after a
 * pause one call at a time tries, and its success closes it. Each failed try doubles the pause, up to 30 s.
 *
 * Every call that was let through must end in exactly one of `succeeded`, `failed` or `abandoned`.
 */
export class CircuitBreaker {
  /** Whose calls failed since the last success. */
  #row: (string | undefined)[] = [];
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
    if (this.#row.length > 0) this.#row = [];
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#isTrying = false;
    this.#pauseMs = FIRST_PAUSE_MS;
  }

  /**
   * @param nowMs of the same clock.
   * @param caller whose call failed; undefined where it cannot be the caller's doing: then it always counts.
   */
  failed(nowMs: number, caller?: string): void {
    const ofCaller = this.#row.filter((each) => each !== undefined && each === caller).length;
    if (ofCaller >= FAILURES_THAT_COUNT) {
      this.abandoned();
      return;
    }
    if (this.#row.length < FAILURES_TO_OPEN) this.#row.push(caller);
    if (this.#isOpen) {
      // What was under way when it opened says nothing new.
      if (!this.#isTrying) return;
      this.#isTrying = false;
      this.#pauseMs = Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS);
    } else if (this.#row.length < FAILURES_TO_OPEN) return;
    this.#isOpen = true;
    this.#closedAgainMs = nowMs + this.#pauseMs;
  }

  /** The call ended without telling anything of the upstream. */
  abandoned(): void {
    this.#isTrying = false;
  }
}
