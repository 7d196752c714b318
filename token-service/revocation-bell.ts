/**
 * Tells every replica that the revocation log has grown. A ring carries no content and nothing depends on it:
 * it only makes replicas read the log now instead of at the next poll, so a bell that is lost, late, repeated
 * or forged does no harm.
 */
export interface RevocationBell {
  /** Never throws and never waits. */
  ring(): void;
  onRing(listener: () => void): void;
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
    close: async () => undefined,
  };
}
