import { expect, onTestFinished, test, vi } from "vitest";
import { type Bucket, limitFrom } from "./bucket.ts";
import { ReconciledLimiter } from "./reconciled-limiter.ts";

test("buckets that are not used any more are forgotten, each time; then the limiter wakes nobody", async () => {
  vi.useFakeTimers();
  const limiter = new ReconciledLimiter({ redis: undefined, replicas: 1 });
  onTestFinished(() => {
    limiter.close();
    vi.useRealTimers();
  });
  const limit = limitFrom({ calls: 2, perSeconds: 2 });
  const bucket: Bucket = { kind: "calls", name: "a", scope: "address", limit };
  for (let round = 0; round < 2; round += 1) {
    limiter.take([bucket]);
    await vi.advanceTimersByTimeAsync(900);
    expect(limiter.size).toBe(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([limiter.size, vi.getTimerCount()]).toEqual([0, 0]);
  }
});
