/** Places for work that runs at once; who finds none waits for one, first come first served. */
export interface Slots {
  /** @returns to be called once, when the work is over; undefined if none got free in time, or too many wait. */
  take(): Promise<(() => void) | undefined>;
}

/** @param limits `maxWaiting`: how many may wait; `maxWaitMs`: how long. */
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
