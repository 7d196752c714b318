import { backOffMs } from "#kit/values/back-off.ts";

const FAILURES_TO_OPEN = 5;
/** Per caller, who may know a request that always fails. */
const FAILURES_THAT_COUNT = 2;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** A trial that lasts, for example an upload, keeps the others out no longer: its caller decides when it ends. */
const TRIAL_MS = 5_000;

/**
 * Opens after five failures in a row, at most two per caller. After a pause it allows one trial call, and another after each 5 s;
 * a failed trial doubles the pause. Each admitted call must end in `succeeded`, `failed` or `abandoned`.
 */
export class CircuitBreaker {
  #row: (string | undefined)[] = [];
  #failedTrials = 0;
  #closedAgainMs = 0;
  #isOpen = false;
  #isTrying = false;

  get state(): "closed" | "half-open" | "open" {
    if (!this.#isOpen) return "closed";
    return this.#isTrying ? "half-open" : "open";
  }

  /** @param nowMs of a monotonic clock. */
  letThrough(nowMs: number): boolean {
    if (!this.#isOpen) return true;
    if (nowMs < this.#closedAgainMs) return false;
    this.#isTrying = true;
    this.#closedAgainMs = nowMs + TRIAL_MS;
    return true;
  }

  succeeded(): void {
    if (this.#row.length > 0) this.#row = [];
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#isTrying = false;
    this.#failedTrials = 0;
  }

  /** @param caller undefined if the caller cannot be the cause. It always counts. */
  failed(nowMs: number, caller?: string): void {
    const ofCaller = this.#row.filter((each) => each !== undefined && each === caller).length;
    if (ofCaller >= FAILURES_THAT_COUNT) {
      this.abandoned();
      return;
    }
    if (this.#row.length < FAILURES_TO_OPEN) this.#row.push(caller);
    if (this.#isOpen) {
      // Calls that started earlier give no new information.
      if (!this.#isTrying) return;
      this.#isTrying = false;
      this.#failedTrials += 1;
    } else if (this.#row.length < FAILURES_TO_OPEN) return;
    this.#isOpen = true;
    this.#closedAgainMs =
      nowMs +
      backOffMs({ attempt: this.#failedTrials + 1, firstMs: FIRST_PAUSE_MS, maxMs: LONGEST_PAUSE_MS });
  }

  abandoned(): void {
    if (!this.#isTrying) return;
    this.#isTrying = false;
    this.#closedAgainMs = 0;
  }
}
