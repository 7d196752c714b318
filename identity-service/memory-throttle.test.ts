import { expect, test } from "vitest";
import { createMemoryThrottle } from "./memory-throttle.ts";
import { testThrottleContract } from "./throttle.contract.ts";
import { throttleLimits } from "./throttle.ts";

testThrottleContract("the throttle in memory", async (limits) => {
  let nowMs = 1.8e12;
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { throttle: createMemoryThrottle({ limits, now: () => nowMs }), pass };
});

test("a hundred thousand accounts and networks take no more memory than the bound allows", async () => {
  const limits = throttleLimits({ network: 1_000, everything: 1e9 });
  const maxKeys = 20_000;
  const throttle = createMemoryThrottle({ limits, now: () => 1.8e12, maxKeys });
  for (let index = 0; index < 100_000; index += 1) {
    const clientIp = `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
    await throttle.take({ account: `user${index}`, clientIp });
  }
  expect(throttle.size).toBeLessThanOrEqual(2 * maxKeys);
  // What is still being guessed at is not what was forgotten.
  expect((await throttle.take({ account: "user99999", clientIp: "10.0.0.1" })).kind).toBe("admitted");
}, 60_000);

test("an account under attack is not forgotten while others come and go", async () => {
  const limits = throttleLimits({ network: 1e6, everything: 1e9 });
  const throttle = createMemoryThrottle({ limits, now: () => 1.8e12, maxKeys: 1_000 });
  for (let index = 0; index < 20_000; index += 1) {
    await throttle.take({ account: `user${index}`, clientIp: `192.0.2.${index % 256}` });
    if (index % 100 === 0) await throttle.take({ account: "ada", clientIp: "198.51.100.1" });
  }
  expect((await throttle.take({ account: "ada", clientIp: "203.0.113.1" })).kind).toBe("locked");
});

test("four failures are forgotten a day after the last", async () => {
  let nowMs = 1.8e12;
  const throttle = createMemoryThrottle({
    limits: throttleLimits({ network: 100, everything: 100 }),
    now: () => nowMs,
  });
  const guess = { account: "ada", clientIp: "192.0.2.1" };
  for (let round = 0; round < 4; round += 1) await throttle.take(guess);
  nowMs += 24 * 3_600_000 + 1;
  const kinds: string[] = [];
  for (let round = 0; round < 6; round += 1) kinds.push((await throttle.take(guess)).kind);
  expect(kinds).toEqual([...Array.from({ length: 5 }, () => "admitted"), "locked"]);
});
