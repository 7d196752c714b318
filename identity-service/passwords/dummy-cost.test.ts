import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { drawCost, dummyHash, knownCost, type UsedCost } from "./dummy-cost.ts";
import { readForeignHash } from "./foreign-hash.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher, type Verification } from "./password-hasher.ts";
import { costText, readStoredHash } from "./stored-hash.ts";

const OLD = { memoryKib: 19_456, iterations: 2, parallelism: 1 };
const NEW = { memoryKib: 47_104, iterations: 2, parallelism: 1 };
const [OLD_COST, NEW_COST] = [costText(OLD), costText(NEW)];
const KEY = Buffer.alloc(32, 7);
const OLD_HASH = `$argon2id$v=19$m=19456,t=2,p=1$${"Q".repeat(22)}$${"Q".repeat(43)}`;
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
  const costOf = setUp([{ cost: OLD_COST, count: 10_000 }]);
  const known = await costOf(OLD_HASH, { address: "ada@example.com" });
  for (const address of addresses.slice(0, 20)) {
    expect((await costOf(undefined, { address })).memoryKib).toBe(known.memoryKib);
    expect((await costOf(null, { address })).memoryKib).toBe(known.memoryKib);
  }
});

test("as many unknown addresses cost the old parameters as accounts do, and each the same every time", () => {
  const used = [
    { cost: NEW_COST, count: 700 },
    { cost: OLD_COST, count: 300 },
  ];
  const draw = (address: string) => drawCost(used, NEW_COST, KEY, address);
  const old = addresses.filter((address) => draw(address) === OLD_COST);
  // The key stands, so that this is no matter of luck.
  expect(old.length / addresses.length).toBeCloseTo(0.3, 1);
  for (const address of addresses) expect(draw(address)).toBe(draw(address));
});

test("while accounts move to the new parameters, addresses move with them and never back", () => {
  const oldAt = (count: number) =>
    new Set(
      addresses.filter((address) => {
        const used = [
          { cost: OLD_COST, count },
          { cost: NEW_COST, count: 100 - count },
        ];
        return drawCost(used, NEW_COST, KEY, address) === OLD_COST;
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
  const costOf = setUp([{ cost: NEW_COST, count: 1 }]);
  const open = await costOf(OLD_HASH, { address: "ada@example.com" });
  const locked = await costOf(OLD_HASH, { address: "ada@example.com", neverMatches: true });
  expect(open.hash).toBe(OLD_HASH);
  expect(locked.memoryKib).toBe(open.memoryKib);
  expect(locked.hash).not.toBe(OLD_HASH);
});

test("before costs are sampled, an unknown address costs as much as a new hash", () => {
  expect(drawCost([], NEW_COST, KEY, "ada@example.com")).toBe(NEW_COST);
});

test("after an import, unknown addresses cost what imported accounts do, and go with them to our own cost", () => {
  const imported = { cost: "$2b$10", count: 600 };
  const before = [imported, { cost: NEW_COST, count: 400 }];
  const after = [
    { ...imported, count: 200 },
    { cost: NEW_COST, count: 800 },
  ];
  const foreignOf = (used: UsedCost[]) =>
    new Set(addresses.filter((address) => drawCost(used, NEW_COST, KEY, address) === imported.cost));
  expect(foreignOf(before).size / addresses.length).toBeCloseTo(0.6, 1);
  expect(foreignOf(after).size / addresses.length).toBeCloseTo(0.2, 1);
  expect([...foreignOf(after)].every((address) => foreignOf(before).has(address))).toBe(true);
});

test("of an imported account, of a locked one, of none and of one without a password one hash is computed, at one cost", async () => {
  const imported = `$2b$04$${".".repeat(53)}`;
  const { cost = "" } = readForeignHash(imported) ?? {};
  const used = [{ cost, count: 1 }];
  const queue = createHashQueue({
    concurrency: 1,
    maxWaiting: 1,
    maxWaitMs: 60_000,
    now: Date.now,
    metrics: createMetrics("test"),
  });
  let computed = 0;
  const unused = () => Promise.reject(new Error("our own algorithm"));
  const hasher = createPasswordHasher({
    argon2: { hash: unused, verify: unused },
    parameters: NEW,
    costKey: KEY,
    queue: {
      ...queue,
      run: (work, deadlineMs) => {
        computed += 1;
        return queue.run(work, deadlineMs);
      },
    },
    logger: createLogger("test", "info", { write: () => undefined }),
  });
  hasher.useCosts(used);
  const account = { id: "u1", passwordHash: imported };
  const attempts: [typeof account | { id: string; passwordHash: null } | undefined, Verification][] = [
    [account, { address: "ada@example.com" }],
    [account, { address: "ada@example.com", neverMatches: true }],
    [undefined, { address: "nobody@example.com" }],
    [{ id: "u2", passwordHash: null }, { address: "ben@example.com" }],
  ];
  for (const [who, how] of attempts) {
    computed = 0;
    // Our own algorithm would throw: whatever is computed has the imported one's cost, as drawn for the address.
    expect(await hasher.verify(who, "wrong", Number.POSITIVE_INFINITY, how)).toBe("mismatch");
    expect(computed).toBe(1);
    expect(drawCost(used, NEW_COST, KEY, how.address ?? "")).toBe(cost);
  }
});

test.each(["$2b$10", "$pbkdf2-sha256$i=27500", "$scrypt$ln=14,r=8,p=1", "$argon2id$v=19$m=7168,t=5,p=1"])(
  "a dummy of the cost %s can be computed, and has this cost",
  async (cost) => {
    const dummy = readForeignHash(dummyHash(cost)) ?? readStoredHash(dummyHash(cost));
    expect(dummy).toBeDefined();
    expect(knownCost(cost)).toBe(cost);
    if (dummy !== undefined && "verify" in dummy) expect(await dummy.verify("a password")).toBe(false);
  },
);
