/** Wakes replicas before the next poll. A lost, late or forged ring does no harm. */
export interface RevocationBell {
  /** Never throws or waits. */
  ring(): void;
  /** One call may stand for several rings. */
  onRing(listener: () => void): void;
  close(): Promise<void>;
}

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
