/** A FIFO semaphore with a bounded queue. */
export interface Slots {
  /** Returns the release function, or undefined on timeout or a full queue. */
  take(): Promise<(() => void) | undefined>;
}

export function createSlots(limits: { count: number; maxWaiting: number; maxWaitMs: number }): Slots {
  let taken = 0;
  const waiting: (() => void)[] = [];

  function release(): void {
    const next = waiting.shift();
    if (next === undefined) taken -= 1;
    else next();
  }

  function wait(): Promise<(() => void) | undefined> {
    return new Promise((resolve) => {
      const begin = () => {
        clearTimeout(timer);
        resolve(release);
      };
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(begin), 1);
        resolve(undefined);
      }, limits.maxWaitMs);
      waiting.push(begin);
    });
  }

  return {
    async take() {
      if (taken < limits.count) {
        taken += 1;
        return release;
      }
      return waiting.length < limits.maxWaiting ? wait() : undefined;
    },
  };
}
