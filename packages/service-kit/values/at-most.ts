/** Bounds log lines that clients can cause. */
export function atMost<A extends unknown[]>(
  times: number,
  periodMs: number,
  act: (...args: A) => void,
  nowMs: () => number = () => performance.now(),
): (...args: A) => void {
  let periodEndMs = Number.NEGATIVE_INFINITY;
  let left = 0;
  return (...args) => {
    const now = nowMs();
    if (now >= periodEndMs) {
      periodEndMs = now + periodMs;
      left = times;
    }
    if (left === 0) return;
    left -= 1;
    act(...args);
  };
}
