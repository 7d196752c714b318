import { expect, test } from "vitest";
import { createLogger } from "../../service-kit/logger.ts";
import { createMetrics } from "../../service-kit/metrics.ts";
import { drawCost, type UsedCost } from "./dummy-cost.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher, type Verification } from "./password-hasher.ts";
import { readStoredHash } from "./stored-hash.ts";

const OLD = { memoryKib: 19_456, iterations: 2, parallelism: 1 };
const NEW = { memoryKib: 47_104, iterations: 2, parallelism: 1 };
const KEY = Buffer.alloc(32, 7);
const OLD_HASH = `$argon2id$v=19$m=19456,t=2,p=1$${"A".repeat(22)}$${"A".repeat(43)}`;
const addresses = Array.from({ length: 1_000 }, (_, index) => `user${index}@example.com`);

/** A hasher with the new parameters that computes nothing and notes what it was to compute. */
function setUp(used: UsedCost[]) {
  const computed: string[] = [];
  const hasher = createPasswordHasher({
    argon2: {
      hash: () => Promise.reject(new Error("not part of this test")),
      verify: async (hash: string | Uint8Array) => {
        computed.push(String(hash));
        return false;
      },
    },
    parameters: NEW,
    costKey: KEY,
    queue: createHashQueue({
      concurrency: 2,
      maxWaiting: 100,
      maxWaitMs: 60_000,
      now: Date.now,
      metrics: createMetrics("test"),
    }),
    logger: createLogger("test", "info", { write: () => undefined }),
  });
  hasher.useCosts(used);
  return async (passwordHash: string | null | undefined, how: Verification) => {
    const account = passwordHash === undefined ? undefined : { id: "u1", passwordHash };
    expect(await hasher.verify(account, "a password", Number.POSITIVE_INFINITY, how)).toBe("mismatch");
    const [hash = ""] = computed.splice(0);
    const cost = readStoredHash(hash);
    if (cost === undefined) throw new Error(`not a hash: ${hash}`);
    return { memoryKib: cost.memoryKib, hash };
  };
}

test("right after the parameters were raised, an unknown address costs what an account does: the old ones", async () => {
  const costOf = setUp([{ ...OLD, count: 10_000 }]);
  const known = await costOf(OLD_HASH, { address: "ada@example.com" });
  for (const address of addresses.slice(0, 20)) {
    expect((await costOf(undefined, { address })).memoryKib).toBe(known.memoryKib);
    expect((await costOf(null, { address })).memoryKib).toBe(known.memoryKib);
  }
});

test("as many unknown addresses cost the old parameters as accounts do, and each the same every time", () => {
  const used = [
    { ...NEW, count: 700 },
    { ...OLD, count: 300 },
  ];
  const draw = (address: string) => drawCost(used, NEW, KEY, address).memoryKib;
  const old = addresses.filter((address) => draw(address) === OLD.memoryKib);
  // The key stands, so that this is no matter of luck.
  expect(old.length / addresses.length).toBeCloseTo(0.3, 1);
  for (const address of addresses) expect(draw(address)).toBe(draw(address));
});

test("while accounts move to the new parameters, addresses move with them and never back", () => {
  const oldAt = (count: number) =>
    new Set(
      addresses.filter((address) => {
        const used = [
          { ...OLD, count },
          { ...NEW, count: 100 - count },
        ];
        return (
          drawCost(used, NEW, KEY, address) !== NEW &&
          drawCost(used, NEW, KEY, address).memoryKib === OLD.memoryKib
        );
      }),
    );
  let before = oldAt(100);
  expect(before.size).toBe(addresses.length);
  for (const count of [80, 50, 20, 0]) {
    const after = oldAt(count);
    expect([...after].every((address) => before.has(address))).toBe(true);
    expect(after.size).toBeLessThan(before.size);
    before = after;
  }
  expect(before.size).toBe(0);
});

test("a locked account costs as much as an unlocked one, and its own hash is not verified", async () => {
  const costOf = setUp([{ ...NEW, count: 1 }]);
  const open = await costOf(OLD_HASH, { address: "ada@example.com" });
  const locked = await costOf(OLD_HASH, { address: "ada@example.com", neverMatches: true });
  expect(open.hash).toBe(OLD_HASH);
  expect(locked.memoryKib).toBe(open.memoryKib);
  expect(locked.hash).not.toBe(OLD_HASH);
});

test("before costs are sampled, an unknown address costs as much as a new hash", () => {
  expect(drawCost([], NEW, KEY, "ada@example.com")).toEqual(NEW);
});
