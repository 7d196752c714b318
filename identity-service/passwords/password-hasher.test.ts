import * as ours from "@node-rs/argon2";
import judge from "argon2";
import bcryptjs from "bcryptjs";
import { expect, test, vi } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher } from "./password-hasher.ts";

const FLOOR = { memoryKib: 19_456, iterations: 2, parallelism: 1 };
const RAISED = { memoryKib: 20_480, iterations: 3, parallelism: 1 };
const PASSWORD = "correct horse battery staple";

async function setUp(parameters = FLOOR) {
  const argon2 = { hash: vi.fn(ours.hash), verify: vi.fn(ours.verify) };
  const logLines: string[] = [];
  const hasher = await createPasswordHasher({
    costKey: Buffer.alloc(32, 7),
    argon2,
    parameters,
    queue: createHashQueue({
      concurrency: 2,
      maxWaiting: 100,
      maxWaitMs: 60_000,
      now: Date.now,
      metrics: createMetrics("test"),
    }),
    logger: createLogger("test", "info", { write: (line) => void logLines.push(line) }),
  });
  argon2.hash.mockClear();
  const verify = (passwordHash: string | null, password: string) =>
    hasher.verify({ id: "u1", passwordHash }, password, Number.POSITIVE_INFINITY);
  const hash = (password: string) => hasher.hash(password, Number.POSITIVE_INFINITY);
  return { argon2, hasher, hash, verify, logLines };
}

test("an independent implementation accepts our hashes, and only with the right password", async () => {
  const { hash } = await setUp();
  const phc = await hash(PASSWORD);
  expect(phc).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  expect(await judge.verify(phc, PASSWORD)).toBe(true);
  expect(await judge.verify(phc, `${PASSWORD}!`)).toBe(false);
});

test("we accept the hashes of an independent implementation", async () => {
  const { verify } = await setUp();
  const phc = await judge.hash(PASSWORD, { memoryCost: 19_456, timeCost: 2, parallelism: 1 });
  expect(await verify(phc, PASSWORD)).toBe("match");
  expect(await verify(phc, `${PASSWORD}!`)).toBe("mismatch");
});

test("two hashes of one password have two salts", async () => {
  const { hash } = await setUp();
  expect(await hash(PASSWORD)).not.toBe(await hash(PASSWORD));
});

test("a password typed in another normal form is the same password", async () => {
  const { hash, verify } = await setUp();
  const phc = await hash("caf\u00e9 au lait");
  expect(await verify(phc, "cafe\u0301 au lait")).toBe("match");
});

test.each([
  ["after 72 bytes", "a".repeat(80), `${"a".repeat(79)}b`],
  ["after a NUL", "before\u0000after", "before\u0000other"],
  ["at its last of 128 code points", "𠮷".repeat(128), "𠮷".repeat(127)],
])("nothing is cut off: passwords that differ %s differ", async (_where, password, other) => {
  const { hash, verify } = await setUp();
  const phc = await hash(password);
  expect(await verify(phc, password)).toBe("match");
  expect(await verify(phc, other)).toBe("mismatch");
});

test.each([
  ["an unknown account", undefined],
  ["an account without a password", { id: "u1", passwordHash: null }],
  ["a corrupt hash", { id: "u1", passwordHash: "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdA$b3V0" }],
])(
  "%s costs one real verification with the current parameters, and no password matches",
  async (_, account) => {
    const { argon2, hasher } = await setUp(RAISED);
    expect(await hasher.verify(account, PASSWORD, Number.POSITIVE_INFINITY)).toBe("mismatch");
    expect(argon2.verify).toHaveBeenCalledTimes(1);
    expect(argon2.verify.mock.calls[0]?.[0]).toMatch(/^\$argon2id\$v=19\$m=20480,t=3,p=1\$/);
    expect(argon2.hash).not.toHaveBeenCalled();
  },
);

test("a wrong password costs one verification too", async () => {
  const { argon2, hash, verify } = await setUp();
  const phc = await hash(PASSWORD);
  argon2.hash.mockClear();
  expect(await verify(phc, "wrong")).toBe("mismatch");
  expect(argon2.verify).toHaveBeenCalledTimes(1);
  expect(argon2.hash).not.toHaveBeenCalled();
});

test("a planted hash that asks for 4 GiB allocates nothing, is reported without its text, and matches nothing", async () => {
  const { argon2, verify, logLines } = await setUp();
  const real = await judge.hash(PASSWORD, { memoryCost: 19_456, timeCost: 2, parallelism: 1 });
  const planted = real.replace("m=19456", "m=4194304");
  const beforeBytes = process.memoryUsage.rss();
  expect(await verify(planted, PASSWORD)).toBe("mismatch");
  expect(argon2.verify.mock.calls.map(([phc]) => phc)).not.toContain(planted);
  expect(process.memoryUsage.rss() - beforeBytes).toBeLessThan(200 * 1024 * 1024);
  expect(logLines).toHaveLength(1);
  expect(JSON.parse(logLines[0] ?? "")).toMatchObject({ level: "error", userId: "u1" });
  expect(logLines[0]).not.toContain("argon2id");
});

test.each([
  ["less memory", { memoryCost: 19_456, timeCost: 3, parallelism: 1 }, "match_outdated"],
  ["fewer passes", { memoryCost: 20_480, timeCost: 2, parallelism: 1 }, "match_outdated"],
  ["the same cost", { memoryCost: 20_480, timeCost: 3, parallelism: 1 }, "match"],
  ["a higher cost, from before it was lowered", { memoryCost: 32_768, timeCost: 4, parallelism: 1 }, "match"],
])("a hash made with %s is a %s", async (_what, cost, verdict) => {
  const { verify } = await setUp(RAISED);
  expect(await verify(await judge.hash(PASSWORD, cost), PASSWORD)).toBe(verdict);
});

test("an imported hash that ignores part of the typed text is kept, so that a typing error does not become the password", async () => {
  const { verify } = await setUp();
  const imported = bcryptjs.hashSync("x".repeat(72), 4);
  expect(await verify(imported, "x".repeat(72))).toBe("match_outdated");
  expect(await verify(imported, `${"x".repeat(72)}y`)).toBe("match");
});

test("an outdated hash and a wrong password are no match", async () => {
  const { verify } = await setUp(RAISED);
  const phc = await judge.hash(PASSWORD, { memoryCost: 4_096, timeCost: 1, parallelism: 1 });
  expect(await verify(phc, "wrong")).toBe("mismatch");
});
