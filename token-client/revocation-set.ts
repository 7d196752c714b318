/**
 * What is revoked, as far as this process knows. All times are of one monotonic clock, in milliseconds: a wall clock that
 * jumps ahead would have revocations forgotten that still matter.
 */
export class RevocationSet {
  readonly #sessions = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  readonly #maxEntries: number;
  #forgottenAtMs = Number.NEGATIVE_INFINITY;
  #incompleteUntilMs = Number.NEGATIVE_INFINITY;

  /** @param maxEntries beyond it an entry cannot be kept: see `isComplete`. */
  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#sessions.size + this.#keys.size;
  }

  /** False from an entry that could not be kept until no token that it speaks of can be alive. */
  isComplete(nowMs: number): boolean {
    return nowMs >= this.#incompleteUntilMs;
  }

  /** @param untilMs when no token of the session can be alive any more. */
  addSession(sessionId: string, untilMs: number): void {
    this.#add(this.#sessions, sessionId, untilMs);
  }

  /** @param untilMs when no token of the key can be alive any more. */
  addKey(keyId: string, untilMs: number): void {
    this.#add(this.#keys, keyId, untilMs);
  }

  hasSession(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  hasKey(keyId: string): boolean {
    return this.#keys.has(keyId);
  }

  /** Forgets what has ended. Called often; walks the set at most once a second. */
  forgetEnded(nowMs: number): void {
    if (nowMs - this.#forgottenAtMs < 1_000) return;
    this.#forgottenAtMs = nowMs;
    for (const map of [this.#sessions, this.#keys]) {
      for (const [id, untilMs] of map) {
        if (untilMs < nowMs) map.delete(id);
      }
    }
  }

  #add(map: Map<string, number>, id: string, untilMs: number): void {
    const knownMs = map.get(id);
    if (knownMs !== undefined) map.set(id, Math.max(untilMs, knownMs));
    else if (this.size < this.#maxEntries) map.set(id, untilMs);
    else this.#incompleteUntilMs = Math.max(untilMs, this.#incompleteUntilMs);
  }
}
