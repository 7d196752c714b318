/**
 * Tells every replica that the revocation log has grown. A ring carries no content and nothing depends on it:
 * it only makes replicas read the log now instead of at the next poll, so a bell that is lost, late, repeated
 * or forged does no harm.
 */
export interface RevocationBell {
  /** Never throws and never waits. */
  ring(): void;
  /** The listener is called some time after each ring; once may stand for several. */
  onRing(listener: () => void): void;
  /** Nobody is called any more. */
  close(): Promise<void>;
}

/** For a single replica. */
export function createMemoryBell(): RevocationBell {
  const listeners: (() => void)[] = [];
  return {
    ring() {
      for (const listener of listeners) queueMicrotask(listener);
    },
    onRing(listener) {
      listeners.push(listener);
    },
    async close() {
      listeners.length = 0;
    },
  };
}
