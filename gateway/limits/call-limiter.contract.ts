import { beforeEach, describe, expect, test } from "vitest";
import { networksOf } from "#kit/values/network-of.ts";
import { type Bucket, limitFrom } from "./bucket.ts";
import type { CallLimiter } from "./call-limiter.ts";

export interface LimiterUnderTest {
  limiter: CallLimiter;
  /** Advances the clock. */
  pass(ms: number): void;
}

const address = (name: string, calls: number, perSeconds = 60): Bucket => ({
  kind: "own login address",
  name,
  scope: "address",
  limit: limitFrom({ calls, perSeconds }),
});
const total = (calls: number): Bucket => ({
  kind: "own login total",
  name: "",
  scope: "total",
  limit: limitFrom({ calls, perSeconds: 60 }),
});

const ofNetworks = (ip: string, calls: number): Bucket[] =>
  networksOf(ip).map(({ name, times }) => address(name, calls * times));
/** Callers from `network` are not counted once it is known. */
const strangers = (calls: number, network: string): Bucket => ({ ...total(calls), exemptNetwork: network });
const ofDevice = (name: string, calls = 3): Bucket => ({
  kind: "own login device",
  name,
  scope: "device",
  limit: limitFrom({ calls, perSeconds: 60 }),
});
const DAY_MS = 86_400_000;

/** @param open returns an empty limiter with a stopped clock. */
export function testLimiterContract(name: string, open: () => Promise<LimiterUnderTest>): void {
  describe(`${name}, as every limiter`, () => {
    let limiter: CallLimiter;
    let pass: (ms: number) => void;
    beforeEach(async () => {
      ({ limiter, pass } = await open());
    });

    async function admitted(count: number, ...buckets: Bucket[]): Promise<number> {
      const verdicts = await Promise.all(Array.from({ length: count }, () => limiter.take(buckets)));
      return verdicts.filter(({ refusedBy }) => refusedBy === undefined).length;
    }

    test("200 calls at once with a limit of 5: 5 get through", async () => {
      expect(await admitted(200, address("a", 5))).toBe(5);
      expect(await admitted(5, address("b", 5))).toBe(5);
    });

    test("room comes back call by call, and never more than the limit", async () => {
      await admitted(5, address("a", 5));
      pass(11_900);
      expect(await admitted(2, address("a", 5))).toBe(0);
      pass(200);
      expect(await admitted(2, address("a", 5))).toBe(1);
      pass(3_600_000);
      expect(await admitted(20, address("a", 5))).toBe(5);
    });

    test("a call that one bucket refuses is counted in none", async () => {
      await admitted(5, address("a", 5), total(10));
      expect(await admitted(50, address("a", 5), total(10))).toBe(0);
      expect(await admitted(50, address("b", 100), total(10))).toBe(5);
    });

    test("a refusal says what has no room, and when to come again; then there is room", async () => {
      await admitted(5, address("a", 5), total(100));
      const { refusedBy, waitMs } = await limiter.take([address("a", 5), total(100)]);
      expect(refusedBy?.scope).toBe("address");
      expect(waitMs).toBeGreaterThan(11_900);
      expect(waitMs).toBeLessThanOrEqual(12_000);
      pass(waitMs);
      expect(await admitted(2, address("a", 5), total(100))).toBe(1);
    });

    test("the longest wait counts", async () => {
      await admitted(1, address("a", 1), address("b", 1, 3_600));
      const { refusedBy } = await limiter.take([address("a", 1), address("b", 1, 3_600)]);
      expect(refusedBy?.name).toBe("b");
    });

    test("a caller sees the state of its own bucket, not that of the shared one", async () => {
      await admitted(2, address("a", 5), total(3));
      const { own } = await limiter.take([address("a", 5), total(3)]);
      expect(own).toEqual({ limit: 5, remaining: 2, resetS: 36 });
      expect((await limiter.take([total(3)])).own).toBeUndefined();
    });

    test("a thousand /64s of one /48 get sixteen times what one gets, and a stranger from elsewhere still gets in", async () => {
      let flood = 0;
      for (let index = 0; index < 1_000; index += 1) {
        const ip = `2001:db8:1:${index.toString(16)}::1`;
        flood += await admitted(3, ...ofNetworks(ip, 2), strangers(40, ip));
      }
      expect(flood).toBe(32);
      const elsewhere = "2001:db8:2::1";
      expect(await admitted(1, ...ofNetworks(elsewhere, 2), strangers(40, elsewhere))).toBe(1);
    });

    test("when the strangers' limit is used up, callers from known networks pass within their own limits", async () => {
      await limiter.remember({ network: "192.0.2.1" });
      for (let index = 0; index < 10; index += 1) {
        const ip = `198.51.100.${index}`;
        await admitted(2, address(ip, 2), strangers(10, ip));
      }
      expect(await admitted(1, address("192.0.2.9", 2), strangers(10, "192.0.2.9"))).toBe(0);
      expect(await admitted(5, address("192.0.2.1", 2), strangers(10, "192.0.2.1"))).toBe(2);
    });

    test("a verdict distinguishes strangers from known networks and devices", async () => {
      const isStranger = async (...buckets: Bucket[]) => (await limiter.take(buckets)).isStranger;
      expect(await isStranger(strangers(10, "192.0.2.1"))).toBe(true);
      const device = { key: "phone", userId: "0199a000-0000-7000-8000-00000000000a" };
      await limiter.remember({ network: "192.0.2.1", device });
      expect(await isStranger(address("192.0.2.1", 10), strangers(10, "192.0.2.1"))).toBeUndefined();
      expect(await isStranger(ofDevice("phone"), strangers(10, "192.0.2.2"))).toBeUndefined();
      expect(await isStranger(ofDevice("made up"), strangers(10, "192.0.2.2"))).toBe(true);
      expect(await isStranger(address("192.0.2.2", 10))).toBeUndefined();
    });

    test("what a known network does leaves strangers theirs", async () => {
      await limiter.remember({ network: "192.0.2.1" });
      expect(await admitted(50, address("192.0.2.1", 100), strangers(10, "192.0.2.1"))).toBe(50);
      expect(await admitted(20, address("192.0.2.9", 100), strangers(10, "192.0.2.9"))).toBe(10);
    });

    test("a network is remembered for 15 days, and forgotten after 30", async () => {
      await limiter.remember({ network: "192.0.2.1" });
      const fromKnown = () => admitted(1, strangers(1, "192.0.2.1"));
      await admitted(1, strangers(1, "192.0.2.9"));
      expect(await fromKnown()).toBe(1);
      pass(15 * DAY_MS - 1);
      await admitted(1, strangers(1, "192.0.2.9"));
      expect(await fromKnown()).toBe(1);
      pass(15 * DAY_MS + 1);
      await admitted(1, strangers(1, "192.0.2.9"));
      expect(await fromKnown()).toBe(0);
      await limiter.remember({ network: "192.0.2.1" });
      expect(await fromKnown()).toBe(1);
    });

    /** From the device's usual network. */
    const logIn = (key: string, userId = "ada") =>
      limiter.remember({ network: "198.51.100.1", device: { key, userId } });
    /** After the strangers' limit is used up. */
    const fromElsewhere = async (key: string, count = 1) => {
      await admitted(10, strangers(10, "192.0.2.9"));
      return admitted(count, ofDevice(key), strangers(10, "203.0.113.1"));
    };

    test("when strangers have used up what they share, a known device gets in from a new network, within its own limit", async () => {
      await logIn("phone");
      expect(await fromElsewhere("phone", 9)).toBe(3);
      expect(await fromElsewhere("made up", 9)).toBe(0);
    });

    test("a device that only its client names gets nothing, and does not become known", async () => {
      await limiter.remember({ network: "198.51.100.1", device: { key: "made up" } });
      expect(await fromElsewhere("made up")).toBe(0);
    });

    test("a known device beyond its limit is a stranger, not refused", async () => {
      await logIn("phone");
      expect(await admitted(20, ofDevice("phone"), strangers(10, "203.0.113.1"))).toBe(13);
    });

    test("what a known device does leaves strangers theirs", async () => {
      await logIn("phone");
      expect(await admitted(3, ofDevice("phone"), strangers(10, "203.0.113.1"))).toBe(3);
      expect(await admitted(20, strangers(10, "192.0.2.9"))).toBe(10);
    });

    test("on a known network a device's calls are not counted, and those that are refused neither", async () => {
      await logIn("phone");
      const home = [ofDevice("phone"), strangers(10, "198.51.100.1")];
      expect(await admitted(50, ...home)).toBe(50);
      const elsewhere = [address("203.0.113.1", 1), ofDevice("phone"), strangers(10, "203.0.113.1")];
      expect(await admitted(9, ...elsewhere)).toBe(1);
      expect(await fromElsewhere("phone", 9)).toBe(2);
    });

    test("a caller does not see the state of its device's bucket", async () => {
      await logIn("phone");
      const { own } = await limiter.take([
        address("203.0.113.1", 5),
        ofDevice("phone"),
        strangers(10, "203.0.113.1"),
      ]);
      expect(own).toEqual({ limit: 5, remaining: 4, resetS: 12 });
    });

    test("one account makes five devices known in a day, and one of another account is", async () => {
      for (let index = 0; index < 20; index += 1) await logIn(`eve ${index}`, "eve");
      let known = 0;
      for (let index = 0; index < 20; index += 1) known += await fromElsewhere(`eve ${index}`);
      expect(known).toBe(5);
      await logIn("phone");
      expect(await fromElsewhere("phone")).toBe(1);
      pass(DAY_MS);
      await logIn("eve 20", "eve");
      expect(await fromElsewhere("eve 20")).toBe(1);
    });

    test("a device is remembered for 15 days, and forgotten after 30", async () => {
      await logIn("phone");
      pass(15 * DAY_MS - 1);
      expect(await fromElsewhere("phone")).toBe(1);
      pass(15 * DAY_MS + 1);
      expect(await fromElsewhere("phone")).toBe(0);
    });

    test("a device that is seen in a session stays known", async () => {
      await logIn("phone");
      pass(15 * DAY_MS - 1);
      await limiter.remember({ network: "198.51.100.1", device: { key: "phone" } });
      pass(15 * DAY_MS - 1);
      expect(await fromElsewhere("phone")).toBe(1);
    });
  });
}
