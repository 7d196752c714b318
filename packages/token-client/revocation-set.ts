/** Uses monotonic time: a jump of the wall clock must not drop a revocation. */
export class RevocationSet {
  readonly #sessions = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  readonly #maxEntries: number;
  #forgottenAtMs = Number.NEGATIVE_INFINITY;
  #incompleteUntilMs = Number.NEGATIVE_INFINITY;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#sessions.size + this.#keys.size;
  }

  /** False after a lack of room, until no affected token is valid. */
  isComplete(nowMs: number): boolean {
    return nowMs >= this.#incompleteUntilMs;
  }

  /** @param untilMs end of the session's last token. */
  addSession(sessionId: string, untilMs: number): void {
    this.#add(this.#sessions, sessionId, Math.ceil(untilMs));
  }

  addKey(keyId: string, untilMs: number): void {
    this.#add(this.#keys, keyId, Math.ceil(untilMs));
  }

  hasSession(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  hasKey(keyId: string): boolean {
    return this.#keys.has(keyId);
  }

  forgetEnded(nowMs: number): void {
    if (nowMs - this.#forgottenAtMs < 1_000) return;
    this.#forgottenAtMs = nowMs;
    for (const map of [this.#sessions, this.#keys]) {
      // In order of receipt, so the first that lives is nearly always older than all that live.
      for (const [id, untilMs] of map) {
        if (untilMs >= nowMs) break;
        map.delete(id);
      }
    }
  }

  /** @param untilMs whole: V8 keeps a fraction outside of the map, in 16 bytes of its own. */
  #add(map: Map<string, number>, id: string, untilMs: number): void {
    const knownMs = map.get(id);
    if (knownMs !== undefined) {
      map.delete(id);
      map.set(id, Math.max(untilMs, knownMs));
    } else if (this.size < this.#maxEntries) map.set(id, untilMs);
    else this.#incompleteUntilMs = Math.max(untilMs, this.#incompleteUntilMs);
  }
}
