/** What is revoked, as far as this process knows. */
export class RevocationSet {
  readonly #sessions = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  readonly #maxEntries: number;
  #forgottenAtMs = 0;

  /** @param maxEntries beyond it the set is no longer complete: see `isFull`. */
  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  /** True once an entry could not be kept. Memory must not be trusted from then on: nothing is ever dropped silently. */
  get isFull(): boolean {
    return this.size >= this.#maxEntries;
  }

  get size(): number {
    return this.#sessions.size + this.#keys.size;
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
    if (map.has(id) || !this.isFull) map.set(id, Math.max(untilMs, map.get(id) ?? 0));
  }
}
