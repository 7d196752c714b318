import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Admission,
  type CostlyCall,
  type Guess,
  type RightLogin,
  type Standing,
  type Throttle,
  type ThrottleLimits,
  throttleLimits,
} from "./throttle.ts";

export interface ThrottleUnderTest {
  throttle: Throttle;
  pass(ms: number): void;
}

const guess = (account: string, clientIp = "192.0.2.1"): Guess => ({ account, clientIp });
const SECOND = 1_000;
const BUSY = { code: "busy", retryAfterMs: 1_000 };
const HOUR = 3_600 * SECOND;

/** @param open gives one without any counts, whose clock stands. */
export function testThrottleContract(
  name: string,
  open: (limits: ThrottleLimits) => Promise<ThrottleUnderTest>,
): void {
  describe(`${name}, as every throttle`, () => {
    let throttle: Throttle;
    let pass: (ms: number) => void;
    const opened: Throttle[] = [];

    async function start(network = 1_000, everything = 100_000): Promise<void> {
      ({ throttle, pass } = await open(throttleLimits({ network, everything })));
      opened.push(throttle);
    }
    beforeEach(() => start());
    afterEach(async () => {
      for (const each of opened.splice(0)) await each.close();
    });

    async function kinds(guesses: Guess[]): Promise<Record<Admission["kind"], number>> {
      const admissions = await Promise.all(guesses.map((each) => throttle.take(each)));
      const count = (kind: Admission["kind"]) => admissions.filter((each) => each.kind === kind).length;
      return { admitted: count("admitted"), locked: count("locked"), refused: count("refused") };
    }
    const many = (count: number, make: (index: number) => Guess) =>
      Array.from({ length: count }, (_, i) => make(i));
    async function floodFrom(clientIp: (index: number) => string, count: number): Promise<void> {
      for (let begin = 0; begin < count; begin += 100) {
        const size = Math.min(100, count - begin);
        await kinds(many(size, (index) => guess(`user${begin + index}`, clientIp(begin + index))));
      }
    }

    test("200 guesses at once on one account from 200 networks: 5 are admitted", async () => {
      const guesses = many(200, (index) => guess("ada", `192.0.2.${index}`));
      expect(await kinds(guesses)).toEqual({ admitted: 5, locked: 195, refused: 0 });
    });

    test("200 guesses at once from one network with a budget of 5: 5 are admitted", async () => {
      await start(5);
      const guesses = many(200, (index) => guess(`user${index}`));
      expect(await kinds(guesses)).toEqual({ admitted: 5, locked: 0, refused: 195 });
    });

    test("200 guesses at once from everywhere with a budget of 5 in all: 5 are admitted", async () => {
      await start(1_000, 5);
      const guesses = many(200, (index) => guess(`user${index}`, `192.0.2.${index}`));
      expect(await kinds(guesses)).toEqual({ admitted: 5, locked: 0, refused: 195 });
    });

    test("a refused network learns its budget and when to come again, and may then", async () => {
      await start(3);
      await kinds(many(3, (index) => guess(`user${index}`)));
      const refusal = await throttle.take(guess("next"));
      expect(refusal).toEqual({ kind: "refused", retryAfterMs: 300 * SECOND, limit: 3 });
      pass(300 * SECOND - 1);
      expect((await throttle.take(guess("next"))).kind).toBe("refused");
      pass(1);
      expect((await throttle.take(guess("next"))).kind).toBe("admitted");
      expect((await throttle.take(guess("next"))).kind).toBe("refused");
    });

    test("a refusal by the shared budget reveals only when to try again", async () => {
      await start(1_000, 3);
      await kinds(many(3, (index) => guess(`user${index}`)));
      expect(await throttle.take(guess("next"))).toEqual({ kind: "refused", retryAfterMs: 300 * SECOND });
    });

    test("a /64 is one network", async () => {
      await start(5);
      const guesses = many(20, (index) => guess(`user${index}`, `2001:db8::${index + 1}`));
      expect(await kinds(guesses)).toMatchObject({ admitted: 5, refused: 15 });
      expect((await throttle.take(guess("user", "2001:db8:0:1::1"))).kind).toBe("admitted");
    });

    test("from the 5th failure each one doubles the wait, up to an hour", async () => {
      await kinds(many(5, (index) => guess("ada", `192.0.2.${index}`)));
      const network = (index: number) => `198.51.100.${index}`;
      let index = 0;
      for (const waitS of [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]) {
        pass(waitS * SECOND - 1);
        expect((await throttle.take(guess("ada", network(index)))).kind).toBe("locked");
        pass(1);
        expect((await throttle.take(guess("ada", network(index)))).kind).toBe("admitted");
        index += 1;
      }
    });

    test("one network waits longer than an hour in the end, and leaves the account to others", async () => {
      for (let round = 0; round < 14; round += 1) {
        await throttle.take(guess("ada"));
        pass(HOUR * 2 ** Math.max(0, round - 11));
      }
      expect((await throttle.take(guess("ada"))).kind).toBe("admitted");
      pass(HOUR);
      expect((await throttle.take(guess("ada"))).kind).toBe("locked");
      expect((await throttle.take(guess("ada", "198.51.100.1"))).kind).toBe("admitted");
    });

    test("after 100 failures in a row nothing goes on, however long one waits", async () => {
      let admitted = 0;
      for (let round = 0; round < 150; round += 1) {
        if ((await throttle.take(guess("ada", `192.0.2.${round}`))).kind === "admitted") admitted += 1;
        pass(HOUR);
      }
      expect(admitted).toBe(100);
      pass(20 * 24 * HOUR);
      expect((await throttle.take(guess("ada", "198.51.100.1"))).kind).toBe("locked");
    });

    test("a success clears the account", async () => {
      await kinds(many(4, () => guess("ada")));
      await throttle.take(guess("ada"));
      expect((await throttle.take(guess("ada"))).kind).toBe("locked");
      await throttle.succeed(guess("ada"));
      expect(await kinds(many(6, () => guess("ada")))).toMatchObject({ admitted: 5, locked: 1 });
    });

    test("an account that is cleared begins anew, from every network and on every device", async () => {
      const laptop = { ...guess("ada"), deviceId: "laptop" };
      for (const each of [guess("ada"), laptop]) {
        expect(await kinds(many(10, () => each))).toMatchObject({ admitted: 5, locked: 5 });
      }
      await throttle.clear("ada");
      for (const each of [guess("ada"), laptop]) {
        expect(await kinds(many(10, () => each))).toMatchObject({ admitted: 5, locked: 5 });
      }
    });

    test("an account that is cleared twice begins anew twice", async () => {
      for (let round = 0; round < 3; round += 1) {
        expect(await kinds(many(10, () => guess("ada")))).toMatchObject({ admitted: 5, locked: 5 });
        await throttle.clear("ada");
      }
    });

    test("until when strangers must wait is reported, and that they must wait for good", async () => {
      expect(await throttle.lockedUntil("ada")).toBeUndefined();
      for (let index = 0; index < 4; index += 1) await throttle.take(guess("ada", `192.0.2.${index}`));
      expect(await throttle.lockedUntil("ada")).toBeUndefined();
      await throttle.take(guess("ada", "192.0.2.9"));
      const firstMs = (await throttle.lockedUntil("ada")) ?? 0;
      expect(Number.isFinite(firstMs) && firstMs > 0).toBe(true);
      expect(await throttle.lockedUntil("bob")).toBeUndefined();
      pass(30 * SECOND);
      expect(await throttle.lockedUntil("ada")).toBeUndefined();
      await throttle.take(guess("ada", "192.0.2.9"));
      expect(((await throttle.lockedUntil("ada")) ?? 0) - firstMs).toBeCloseTo(60 * SECOND, 0);
      await throttle.clear("ada");
      expect(await throttle.lockedUntil("ada")).toBeUndefined();
      for (let failures = 0; failures < 100; failures += 1) {
        await throttle.take(guess("eve", `198.51.100.${failures}`));
        pass(HOUR);
      }
      expect(await throttle.lockedUntil("eve")).toBe(Number.POSITIVE_INFINITY);
    });

    test("clearing one account leaves another as it is", async () => {
      await kinds(many(5, () => guess("ben")));
      await throttle.clear("ada");
      expect((await throttle.take(guess("ben"))).kind).toBe("locked");
    });

    test("a success from one network forgives no other one", async () => {
      await kinds(many(5, () => guess("ada", "203.0.113.66")));
      pass(30 * SECOND - 1);
      await throttle.succeed({ ...guess("ada"), deviceId: "laptop" });
      expect((await throttle.take(guess("ada", "203.0.113.66"))).kind).toBe("locked");
      expect((await throttle.take(guess("ada"))).kind).toBe("admitted");
    });

    const calls = (count: number, make: (index: number) => CostlyCall) =>
      Promise.all(Array.from({ length: count }, (_, index) => throttle.spend(make(index))));
    const refusedOf = (spendings: readonly { kind: string }[]) =>
      spendings.filter(({ kind }) => kind === "refused").length;

    test("200 registrations at once from one /64 with a budget of 5: 5 are admitted, and other calls are not in their way", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 5, calls: 1_000 }),
      ));
      opened.push(throttle);
      const clientIp = (index: number) => `2001:db8::${index.toString(16)}`;
      const spendings = await calls(200, (index) => ({ kind: "register", clientIp: clientIp(index) }));
      expect(refusedOf(spendings)).toBe(195);
      expect(spendings.at(-1)).toEqual({ kind: "refused", retryAfterMs: 180 * SECOND, limit: 5 });
      expect(await throttle.spend({ kind: "forgot_password", clientIp: clientIp(1) })).toEqual({
        kind: "admitted",
      });
      expect((await throttle.spend({ kind: "register", clientIp: "192.0.2.1" })).kind).toBe("admitted");
      pass(180 * SECOND);
      expect(refusedOf(await calls(2, () => ({ kind: "register", clientIp: clientIp(1) })))).toBe(1);
    });

    test("200 calls at once from everywhere with a budget of 5 in all: 5 are admitted", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 100, calls: 5 }),
      ));
      opened.push(throttle);
      const spendings = await calls(200, (index) => ({ kind: "register", clientIp: `192.0.2.${index}` }));
      expect(refusedOf(spendings)).toBe(195);
      expect(spendings.at(-1)).toEqual({ kind: "refused", retryAfterMs: 180 * SECOND });
    });

    test("a flood of calls does not block networks with recent logins", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 5, calls: 20 }),
      ));
      opened.push(throttle);
      for (const kind of [
        "register",
        "forgot_password",
        "resend_verification",
        "reset_password",
        "oauth_login",
        "passkey_login",
      ] as const) {
        const flood = await calls(1_000, (index) => ({
          kind,
          clientIp: `192.0.${index >> 8}.${index & 255}`,
        }));
        expect(refusedOf(flood)).toBe(kind.endsWith("_login") ? 800 : 980);
        expect((await throttle.spend({ kind, clientIp: "203.0.113.1" })).kind).toBe("refused");
        const known = { kind, clientIp: "203.0.113.1", isKnown: true };
        expect((await throttle.spend(known)).kind).toBe("admitted");
      }
    });

    test("a flood of calls closes nothing for a known device: it has five, those of its user twenty", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 5, calls: 20 }),
      ));
      opened.push(throttle);
      const kind = "forgot_password";
      for (const isKnown of [false, true])
        await calls(200, (index) => ({ kind, clientIp: `192.0.2.${index}`, isKnown }));
      const ofDevice = (id: string, userId: string) =>
        calls(10, (index) => ({ kind, clientIp: `203.0.113.${index}`, device: { id, userId } }));
      expect(refusedOf(await ofDevice("phone", "ada"))).toBe(5);
      for (const id of ["laptop", "tablet", "work"]) expect(refusedOf(await ofDevice(id, "ada"))).toBe(5);
      expect(refusedOf(await ofDevice("fifth", "ada"))).toBe(10);
      expect(refusedOf(await ofDevice("phone of ben", "ben"))).toBe(5);
      pass(180 * SECOND);
      expect(refusedOf(await ofDevice("phone", "ada"))).toBe(9);
      expect(
        (await throttle.spend({ kind: "resend_verification", device: { id: "phone", userId: "ada" } })).kind,
      ).toBe("admitted");
    });

    test("right logins of one account have a budget for each device and network, an hour long", async () => {
      ({ throttle, pass } = await open(throttleLimits({ network: 100, everything: 100, logins: 5 })));
      opened.push(throttle);
      const refused = async (count: number, login: Partial<RightLogin>) => {
        const all = { kind: "password", account: "ada", clientIp: "192.0.2.1", ...login } as const;
        const spendings = await Promise.all(Array.from({ length: count }, () => throttle.spend(all)));
        return spendings.filter(({ kind }) => kind === "refused").length;
      };
      expect(await refused(8, {})).toBe(3);
      expect(await throttle.spend({ kind: "password", account: "ada", clientIp: "192.0.2.1" })).toEqual({
        kind: "refused",
        retryAfterMs: 720 * SECOND,
        limit: 5,
      });
      expect(await refused(1, { account: "ben" })).toBe(0);
      expect(await refused(1, { kind: "passkey" })).toBe(0);
      expect(await refused(1, { kind: "provider" })).toBe(0);
      expect(await refused(8, { deviceId: "phone" })).toBe(3);
      expect(await refused(8, { deviceId: "laptop" })).toBe(3);
      pass(720 * SECOND);
      expect(await refused(2, {})).toBe(1);
      expect(await refused(2, { deviceId: "phone" })).toBe(1);
    });

    test("who has the password uses up what strangers share of it: no device and no network of the account's own", async () => {
      ({ throttle, pass } = await open(throttleLimits({ network: 100, everything: 100, logins: 5 })));
      opened.push(throttle);
      const login = (clientIp: string, more: Partial<RightLogin> = {}) =>
        throttle.spend({ kind: "password", account: "ada", clientIp, ...more });
      const thief = await Promise.all(Array.from({ length: 200 }, (_, index) => login(`192.0.2.${index}`)));
      expect(refusedOf(thief)).toBe(180);
      expect(await login("198.51.100.1", { standing: "used_network" })).toEqual({
        kind: "refused",
        retryAfterMs: 180 * SECOND,
      });
      expect((await login("192.0.2.1", { deviceId: "phone" })).kind).toBe("admitted");
      expect((await login("203.0.113.1", { standing: "own_network" })).kind).toBe("admitted");
      expect((await login("198.51.100.1", { kind: "passkey" })).kind).toBe("admitted");
      expect((await login("198.51.100.1", { account: "ben" })).kind).toBe("admitted");
    });

    test("calls from a /48 are counted together", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 5, calls: 10_000 }),
      ));
      opened.push(throttle);
      const clientIp = (index: number) => `2001:db8:7:${(index * 256 + index).toString(16)}::1`;
      expect(refusedOf(await calls(200, (index) => ({ kind: "register", clientIp: clientIp(index) })))).toBe(
        120,
      );
    });

    test("calls without an address are not one network", async () => {
      ({ throttle, pass } = await open(
        throttleLimits({ network: 100, everything: 100, callsOfNetwork: 2, calls: 10 }),
      ));
      opened.push(throttle);
      expect(refusedOf(await calls(6, () => ({ kind: "register", clientIp: "" })))).toBe(0);
      expect(refusedOf(await calls(6, () => ({ kind: "register" })))).toBe(2);
    });

    test("of attempts on one account one is under way at a time, and each gets its turn", async () => {
      let underWay = 0;
      const seen: number[] = [];
      await Promise.all(
        many(20, (index) => guess("ada", `192.0.2.${index}`)).map(async (each) => {
          const done = await throttle.turn(each, 10 * SECOND);
          underWay += 1;
          seen.push(underWay);
          await new Promise((resolve) => setTimeout(resolve, 2));
          underWay -= 1;
          done();
        }),
      );
      expect(seen).toEqual(Array.from({ length: 20 }, () => 1));
    });

    test("waiting too long for a turn ends with busy, and the next waiter still gets it", async () => {
      const done = await throttle.turn(guess("ada"), SECOND);
      await expect(throttle.turn(guess("ada"), 50)).rejects.toMatchObject(BUSY);
      await expect(throttle.turn(guess("ada"), -1)).rejects.toMatchObject(BUSY);
      (await throttle.turn(guess("ben"), 50))();
      (await throttle.turn({ ...guess("ada"), deviceId: "laptop" }, 50))();
      const next = throttle.turn(guess("ada"), SECOND);
      done();
      (await next)();
    });

    test("32 may wait for a turn, and the 33rd gets busy at once", async () => {
      const done = await throttle.turn(guess("ada"), SECOND);
      const waiting = Promise.allSettled(
        many(33, () => guess("ada")).map(async (each) => (await throttle.turn(each, SECOND))()),
      );
      await new Promise((resolve) => setTimeout(resolve, 20));
      done();
      const refused = (await waiting).filter(({ status }) => status === "rejected");
      expect(refused).toEqual([{ status: "rejected", reason: expect.objectContaining(BUSY) }]);
    });

    test("successes cost no budget", async () => {
      await start(5);
      for (let round = 0; round < 50; round += 1) {
        expect((await throttle.take(guess("ada"))).kind).toBe("admitted");
        await throttle.succeed(guess("ada"));
      }
    });

    test("an attempt without a verdict costs nothing, even the last one", async () => {
      await start(5);
      for (let round = 0; round < 120; round += 1) {
        expect((await throttle.take(guess("ada"))).kind).toBe("admitted");
        await throttle.giveBack(guess("ada"));
      }
    });

    test("an attempt that is given back is one, whatever the budget", async () => {
      await start(5);
      await kinds(many(5, (index) => guess(`user${index}`)));
      await throttle.giveBack(guess("user0"));
      expect(await kinds(many(5, (index) => guess(`next${index}`)))).toMatchObject({
        admitted: 1,
        refused: 4,
      });
    });

    test("an attempt that is given back leaves the failures before it, and their wait", async () => {
      const phone = { ...guess("ada"), deviceId: "phone" };
      await kinds(many(4, () => phone));
      for (let round = 0; round < 3; round += 1) {
        expect(await throttle.take(phone)).toEqual({ kind: "admitted", locksIfWrong: true });
        await throttle.giveBack(phone);
      }
      await throttle.take(phone);
      pass(30 * SECOND);
      expect((await throttle.take(phone)).kind).toBe("admitted");
      // The sixth failure set a wait of one minute. It was given back, so the 30 s of the fifth remain.
      await throttle.giveBack(phone);
      pass(30 * SECOND - 1);
      expect((await throttle.take(phone)).kind).toBe("locked");
      pass(1);
      expect((await throttle.take(phone)).kind).toBe("admitted");
    });

    test("an attempt that is given back leaves a network its long wait, and the account its shorter one", async () => {
      for (let round = 0; round < 14; round += 1) {
        await throttle.take(guess("ada"));
        pass(HOUR * 2 ** Math.max(0, round - 11));
      }
      expect((await throttle.take(guess("ada"))).kind).toBe("admitted");
      await throttle.giveBack(guess("ada"));
      pass(HOUR);
      expect((await throttle.take(guess("ada"))).kind).toBe("locked");
      expect((await throttle.take(guess("ada", "198.51.100.1"))).kind).toBe("admitted");
    });

    test("a known device gets in while others have locked the account, on a ladder of its own", async () => {
      await kinds(many(200, (index) => guess("ada", `192.0.2.${index}`)));
      const owner = { ...guess("ada", "203.0.113.1"), deviceId: "laptop" };
      expect((await throttle.take(owner)).kind).toBe("admitted");
      await throttle.giveBack(owner);
      expect(await kinds(many(10, () => owner))).toMatchObject({ admitted: 5, locked: 5 });
      expect((await throttle.take({ ...owner, deviceId: "phone" })).kind).toBe("admitted");
    });

    test("a known caller is admitted when strangers have used up the network's budget", async () => {
      await start(5);
      await kinds(many(5, (index) => guess(`user${index}`)));
      expect((await throttle.take(guess("ada"))).kind).toBe("refused");
      expect((await throttle.take({ ...guess("ada"), deviceId: "laptop" })).kind).toBe("admitted");
      expect((await throttle.take({ ...guess("ada"), standing: "session" })).kind).toBe("admitted");
    });

    test("when the budget of all strangers is used up, only strangers are refused", async () => {
      await start(5, 50);
      await floodFrom((index) => `192.0.2.${index}`, 60);
      const from = guess("ada", "203.0.113.1");
      const kindOf = async (standing?: Standing) => (await throttle.take({ ...from, standing })).kind;
      expect(await kindOf()).toBe("refused");
      expect(await kindOf("used_network")).toBe("admitted");
      expect(await kindOf("own_network")).toBe("admitted");
      expect(await kindOf("session")).toBe("admitted");
      expect((await throttle.take({ ...from, deviceId: "laptop" })).kind).toBe("admitted");
    });

    test("a network has one budget for strangers and one for known callers", async () => {
      await start(5);
      await kinds(many(5, (index) => guess(`user${index}`)));
      expect((await throttle.take({ ...guess("ada"), standing: "used_network" })).kind).toBe("refused");
      expect((await throttle.take({ ...guess("ada"), standing: "own_network" })).kind).toBe("refused");
    });

    test("the reserve of networks with recent logins is bounded too, and does not touch the account's own network", async () => {
      await start(5, 50);
      const used = (index: number): Guess => ({
        ...guess(`user${index}`, `192.0.2.${index}`),
        standing: "used_network",
      });
      expect(await kinds(many(60, used))).toMatchObject({ admitted: 50, refused: 10 });
      const from = guess("ada", "203.0.113.1");
      expect((await throttle.take({ ...from, standing: "used_network" })).kind).toBe("refused");
      expect((await throttle.take({ ...from, standing: "own_network" })).kind).toBe("admitted");
      expect((await throttle.take(from)).kind).toBe("admitted");
    });

    test("strangers who use up a /48 do not block a /64 in it that has logged in before", async () => {
      await start(1);
      await floodFrom((index) => `2001:db8:7:${(index * 256).toString(16)}::1`, 64);
      const from = guess("ada", "2001:db8:7:ff00::1");
      expect((await throttle.take(from)).kind).toBe("refused");
      expect((await throttle.take({ ...from, standing: "used_network" })).kind).toBe("admitted");
    });

    test("an account's own network is no way to spray over the accounts of an office", async () => {
      await start(5);
      const own = (index: number): Guess => ({ ...guess(`user${index}`), standing: "own_network" });
      expect(await kinds(many(10, own))).toMatchObject({ admitted: 5, refused: 5 });
    });

    test("the account's own network gets in while others have locked the account, on a ladder of its own", async () => {
      await kinds(many(200, (index) => guess("ada", `192.0.2.${index}`)));
      const owner: Guess = { ...guess("ada", "203.0.113.1"), standing: "own_network" };
      expect((await throttle.take(owner)).kind).toBe("admitted");
      await throttle.giveBack(owner);
      expect(await kinds(many(10, () => owner))).toMatchObject({ admitted: 5, locked: 5 });
    });

    test("each device of an account, and its own network, has turns of its own", async () => {
      const onDevice = (deviceId: string, account = "ada") => ({ ...guess(account), deviceId });
      const done = await throttle.turn(onDevice("laptop"), SECOND);
      (await throttle.turn(onDevice("phone"), 50))();
      (await throttle.turn(onDevice("laptop", "ben"), 50))();
      (await throttle.turn({ ...guess("ada"), standing: "own_network" }, 50))();
      await expect(throttle.turn(onDevice("laptop"), 50)).rejects.toMatchObject(BUSY);
      done();
    });

    test("waiting for an account does not delay attempts from its own network", async () => {
      const done = await throttle.turn(guess("ada"), SECOND);
      const waiting = Promise.allSettled(
        many(33, () => guess("ada")).map(async (each) => (await throttle.turn(each, SECOND))()),
      );
      (await throttle.turn({ ...guess("ada", "203.0.113.1"), standing: "own_network" }, 50))();
      done();
      await waiting;
    });

    test("IPv6 is counted by /64, /56 and /48: a /56 has 4 times the budget, a /48 16 times", async () => {
      await start(10);
      const from = (groups: (index: number) => string, count: number) =>
        kinds(many(count, (index) => guess(`user${index}`, `2001:db8:7:${groups(index)}::1`)));
      expect(await from((index) => `1${(index % 256).toString(16).padStart(2, "0")}`, 100)).toMatchObject({
        admitted: 40,
      });
      expect(await from((index) => (index * 256).toString(16), 200)).toMatchObject({ admitted: 120 });
      expect((await throttle.take(guess("next", "2001:db8:8::1"))).kind).toBe("admitted");
    });

    test("the guess that makes the next one wait says so", async () => {
      const says: unknown[] = [];
      for (let round = 0; round < 5; round += 1) says.push(await throttle.take(guess("ada")));
      expect(says.slice(0, 4)).toEqual(Array.from({ length: 4 }, () => ({ kind: "admitted" })));
      expect(says.at(-1)).toEqual({ kind: "admitted", locksIfWrong: true });
    });

    test("the data of a deleted account is removed", async () => {
      await kinds(many(5, (index) => guess("ada", `192.0.2.${index}`)));
      await throttle.forget("ada");
      expect((await throttle.take(guess("ada", "203.0.113.1"))).kind).toBe("admitted");
    });

    test("5,000 wrong guesses from as many /64s of one /48 block no other network", {
      tags: "exhaustive",
    }, async () => {
      await start(100, 5_000);
      await floodFrom((index) => `2001:db8:7:${index.toString(16)}::1`, 5_000);
      const owner = guess("ada", "203.0.113.1");
      expect((await throttle.take({ ...owner, deviceId: "laptop" })).kind).toBe("admitted");
      expect((await throttle.take(owner)).kind).toBe("admitted");
      expect((await throttle.take(guess("ben", "2001:db8:8::1"))).kind).toBe("admitted");
    });

    test("a success on a known device clears the account for other devices too", async () => {
      await kinds(many(5, (index) => guess("ada", `192.0.2.${index}`)));
      await throttle.succeed({ ...guess("ada", "203.0.113.1"), deviceId: "laptop" });
      expect((await throttle.take(guess("ada", "203.0.113.1"))).kind).toBe("admitted");
    });

    test("an account that does not exist is counted like one that does: nobody can know", async () => {
      expect(await kinds(many(10, () => guess("no such account")))).toMatchObject({ admitted: 5, locked: 5 });
    });
  });
}
