import { expect, test } from "vitest";
import { MemoryThrottle } from "./memory-throttle.ts";
import { testThrottleContract } from "./throttle.contract.ts";
import { throttleLimits } from "./throttle.ts";

testThrottleContract("the throttle in memory", async (limits) => {
  let nowMs = 1.8e12;
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { throttle: new MemoryThrottle({ limits, now: () => nowMs }), pass };
});

test("ten thousand accounts and networks take no more memory than the bound allows", async () => {
  const limits = throttleLimits({ network: 1_000, everything: 1e9 });
  const maxKeys = 2_000;
  const throttle = new MemoryThrottle({ limits, now: () => 1.8e12, maxKeys });
  for (let index = 0; index < 10_000; index += 1) {
    const clientIp = `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}`;
    await throttle.take({ account: `user${index}`, clientIp });
  }
  // The ladders, the budgets, and 256 budgets that the last networks share.
  expect(throttle.size).toBeLessThanOrEqual(2 * maxKeys + 256);
  // What is still being guessed at is not what was forgotten.
  expect((await throttle.take({ account: "user9999", clientIp: "10.0.0.1" })).kind).toBe("admitted");
});

test("an account under attack is not forgotten while others come and go", {
  tags: "exhaustive",
}, async () => {
  const limits = throttleLimits({ network: 1e6, everything: 1e9 });
  const throttle = new MemoryThrottle({ limits, now: () => 1.8e12, maxKeys: 1_000 });
  for (let index = 0; index < 5_000; index += 1) {
    await throttle.take({ account: `user${index}`, clientIp: `192.0.2.${index % 256}` });
    if (index % 100 === 0) await throttle.take({ account: "ada", clientIp: "198.51.100.1" });
  }
  expect((await throttle.take({ account: "ada", clientIp: "203.0.113.1" })).kind).toBe("locked");
});

test("four failures are forgotten a day after the last", async () => {
  let nowMs = 1.8e12;
  const throttle = new MemoryThrottle({
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

const DAY_MS = 24 * 3_600_000;

/** A throttle with a manual clock. */
function throttleAt(startMs: number, maxKeys?: number) {
  let nowMs = startMs;
  const limits = throttleLimits({ network: 1_000, everything: 100_000 });
  const throttle = new MemoryThrottle({ limits, now: () => nowMs, ...(maxKeys && { maxKeys }) });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  return { throttle, pass };
}

const phone = { account: "ada", clientIp: "192.0.2.1", deviceId: "phone" };

test("a count is kept until its time is over, and not a millisecond longer", async () => {
  const { throttle, pass } = throttleAt(1.8e12);
  for (let round = 0; round < 4; round += 1) await throttle.take(phone);
  pass(DAY_MS - 1);
  expect(await throttle.take(phone)).toEqual({ kind: "admitted", locksIfWrong: true });
  const other = { ...phone, deviceId: "laptop" };
  for (let round = 0; round < 4; round += 1) await throttle.take(other);
  pass(DAY_MS);
  expect(await throttle.take(other)).toEqual({ kind: "admitted" });
});

test("an attempt that succeeds or is given back takes no memory", async () => {
  const { throttle } = throttleAt(1.8e12);
  await throttle.take(phone);
  expect(throttle.size).toBe(1);
  await throttle.giveBack(phone);
  expect(throttle.size).toBe(0);
  await throttle.take(phone);
  await throttle.succeed(phone);
  expect(throttle.size).toBe(0);
});

test("nothing is left of an account that is gone, and nothing at all once it is closed", async () => {
  const { throttle } = throttleAt(1.8e12);
  await throttle.clear("ada");
  expect(throttle.size).toBe(1);
  await throttle.forget("ada");
  expect(throttle.size).toBe(0);
  await throttle.clear("ada");
  await throttle.take({ account: "ben", clientIp: "192.0.2.1" });
  // A clearing, two counters of the account, two budgets.
  expect(throttle.size).toBe(5);
  await throttle.close();
  expect(throttle.size).toBe(0);
});

test("a budget that is not counted any more gets nothing back", async () => {
  let nowMs = 1.8e12;
  const limits = throttleLimits({ network: 1, everything: 100 });
  const throttle = new MemoryThrottle({ limits, now: () => nowMs });
  const guess = { account: "ada", clientIp: "192.0.2.1" };
  await throttle.giveBack(guess);
  await throttle.succeed(guess);
  const kinds: string[] = [];
  for (let round = 0; round < 2; round += 1) kinds.push((await throttle.take(guess)).kind);
  expect(kinds).toEqual(["admitted", "refused"]);
  nowMs += 15 * 60_000;
  expect((await throttle.take(guess)).kind).toBe("admitted");
});

test("of more accounts than are kept, the one that was longest untouched is forgotten", async () => {
  const { throttle } = throttleAt(1.8e12, 2);
  const onPhone = (account: string) => throttle.take({ ...phone, account });
  for (let round = 0; round < 5; round += 1) await onPhone("ada");
  await onPhone("ben");
  expect((await onPhone("ada")).kind).toBe("locked");
  await onPhone("eve");
  expect(throttle.size).toBe(2);
  expect((await onPhone("ada")).kind).toBe("locked");
});

test("a network that has used up its budget stays refused, however many networks come after it", async () => {
  const limits = throttleLimits({ network: 3, everything: 1e9 });
  const throttle = new MemoryThrottle({ limits, now: () => 1.8e12, maxKeys: 100 });
  const guess = (index: number, clientIp: string) => throttle.take({ account: `user${index}`, clientIp });
  for (let index = 0; index < 3; index += 1) await guess(index, "192.0.2.1");
  for (let index = 0; index < 1_000; index += 1) await guess(index, `10.0.${index >> 8}.${index & 255}`);
  expect((await guess(0, "192.0.2.1")).kind).toBe("refused");
});
