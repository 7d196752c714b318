import { beforeEach, describe, expect, test } from "vitest";
import { type Decision, type LimitedBucket, limitOf } from "./gcra.ts";

export interface SourceUnderTest {
  spend(buckets: readonly LimitedBucket[]): Promise<Decision[] | undefined>;
  refund(buckets: readonly LimitedBucket[]): Promise<void>;
  /** Advances the clock. */
  pass(ms: number): void;
}

const MINUTE_MS = 60_000;
const bucket = (name: string, calls: number, windowMs = MINUTE_MS): LimitedBucket => ({
  kind: "own login address",
  name,
  limit: limitOf(calls, windowMs),
});

/** @param open returns an empty source with a stopped clock. */
export function testSourceContract(name: string, open: () => Promise<SourceUnderTest>): void {
  describe(`${name}, as every source`, () => {
    let source: SourceUnderTest;
    beforeEach(async () => {
      source = await open();
    });

    async function allowed(count: number, ...buckets: LimitedBucket[]): Promise<number> {
      const answers = await Promise.all(Array.from({ length: count }, () => source.spend(buckets)));
      return answers.filter((decisions) => decisions?.every(({ isAllowed }) => isAllowed)).length;
    }

    test("200 calls at once with a limit of 5: 5 are allowed, for each name and kind", async () => {
      expect(await allowed(200, bucket("a", 5))).toBe(5);
      expect(await allowed(200, bucket("b", 5))).toBe(5);
      expect(await allowed(200, { ...bucket("a", 5), kind: "own refresh address" })).toBe(5);
    });

    test("a burst that does not divide its window is allowed whole", async () => {
      expect(await allowed(200, bucket("a", 7, 50_000))).toBe(7);
    });

    test("room returns call by call, to the millisecond, and never exceeds the burst", async () => {
      await allowed(5, bucket("a", 5));
      source.pass(11_999);
      expect(await allowed(2, bucket("a", 5))).toBe(0);
      source.pass(1);
      expect(await allowed(2, bucket("a", 5))).toBe(1);
      source.pass(60 * MINUTE_MS);
      expect(await allowed(20, bucket("a", 5))).toBe(5);
    });

    test("a call that one bucket refuses is counted in none", async () => {
      await allowed(5, bucket("a", 5), bucket("all", 10));
      expect(await allowed(50, bucket("a", 5), bucket("all", 10))).toBe(0);
      expect(await allowed(50, bucket("b", 100), bucket("all", 10))).toBe(5);
      expect(await allowed(50, bucket("b", 100), bucket("all", 10))).toBe(0);
      expect(await allowed(100, bucket("b", 100))).toBe(95);
    });

    test("an allowed call says how many more are, and when the bucket is empty", async () => {
      const three = bucket("a", 3);
      await allowed(1, three);
      source.pass(5_000);
      expect(await source.spend([three, bucket("b", 1)])).toMatchObject([
        { isAllowed: true, remaining: 1, retryInMs: 0, resetInMs: 35_000 },
        { isAllowed: true, remaining: 0, retryInMs: 0, resetInMs: 60_000 },
      ]);
    });

    test("a refused call says which bucket has no room and when to come again; then there is room", async () => {
      await allowed(5, bucket("a", 5), bucket("b", 10));
      source.pass(2_000);
      expect(await source.spend([bucket("a", 5), bucket("b", 10)])).toMatchObject([
        { isAllowed: false, remaining: 0, retryInMs: 10_000, resetInMs: 58_000 },
        { isAllowed: true, retryInMs: 0 },
      ]);
      source.pass(10_000);
      expect(await allowed(2, bucket("a", 5), bucket("b", 10))).toBe(1);
    });

    test("a call that is taken back leaves room for one more, in each of its buckets", async () => {
      await allowed(5, bucket("a", 5), bucket("b", 6));
      await source.refund([bucket("a", 5), bucket("b", 6)]);
      expect(await allowed(9, bucket("a", 5))).toBe(1);
      expect(await allowed(9, bucket("b", 6))).toBe(2);
    });

    test("what is taken back never adds up to more than the burst", async () => {
      await allowed(1, bucket("a", 5));
      for (let call = 0; call < 3; call += 1) await source.refund([bucket("a", 5), bucket("never used", 5)]);
      expect(await allowed(20, bucket("a", 5))).toBe(5);
      expect(await allowed(20, bucket("never used", 5))).toBe(5);
    });
  });
}
