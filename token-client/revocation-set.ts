/** What is revoked, as far as this process knows. */
export class RevocationSet {
  readonly #sessions = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  readonly #maxEntries: number;
  #forgottenAtMs = 0;
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

  /** @param untilMs when no token of the session can be alive any more, by `Date.now()`. */
  addSession(sessionId: string, untilMs: number): void {
    this.#add(this.#sessions, sessionId, untilMs);
  }

  addKey(keyId: string, untilMs: number): void {
    this.#add(this.#keys, keyId, untilMs);
  }

  has(sessionId: string, keyId: string): boolean {
    return this.#sessions.has(sessionId) || this.#keys.has(keyId);
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
    if (map.has(id) || this.size < this.#maxEntries) map.set(id, Math.max(untilMs, map.get(id) ?? 0));
    else this.#incompleteUntilMs = Math.max(untilMs, this.#incompleteUntilMs);
  }
}
