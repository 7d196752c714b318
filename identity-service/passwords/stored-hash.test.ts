import { randomBytes } from "node:crypto";
import * as argon2 from "@node-rs/argon2";
import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { QUICK, soon } from "../testing/test-deps.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher } from "./password-hasher.ts";
import { createPepper, type Pepper, readStoredHash } from "./stored-hash.ts";

const SALT = "c29tZXNhbHRzb21lc2FsdA"; // 16 bytes
const OUTPUT = "qB0lITSiRrTwaIRXNMyZ189tNEuqVXWHalZlDtzpWtw"; // 32 bytes

test.each([
  ["the floor", "m=19456,t=2,p=1", { memoryKib: 19_456, iterations: 2, parallelism: 1 }],
  ["an older, cheaper one", "m=4096,t=1,p=1", { memoryKib: 4_096, iterations: 1, parallelism: 1 }],
  ["another order", "m=19456,p=1,t=2", { memoryKib: 19_456, iterations: 2, parallelism: 1 }],
  ["the ceiling", "m=131072,t=10,p=4", { memoryKib: 131_072, iterations: 10, parallelism: 4 }],
])("%s is read", (_what, cost, parameters) => {
  expect(readStoredHash(`$argon2id$v=19$${cost}$${SALT}$${OUTPUT}`)).toEqual(parameters);
});

test.each([
  ["4 GiB of memory", `$argon2id$v=19$m=4194304,t=2,p=1$${SALT}$${OUTPUT}`],
  ["a KiB above the ceiling", `$argon2id$v=19$m=131073,t=2,p=1$${SALT}$${OUTPUT}`],
  ["11 passes", `$argon2id$v=19$m=19456,t=11,p=1$${SALT}$${OUTPUT}`],
  ["5 lanes", `$argon2id$v=19$m=19456,t=2,p=5$${SALT}$${OUTPUT}`],
  ["no memory", `$argon2id$v=19$m=0,t=2,p=1$${SALT}$${OUTPUT}`],
  ["less memory than its lanes need", `$argon2id$v=19$m=31,t=2,p=4$${SALT}$${OUTPUT}`],
  ["a leading zero", `$argon2id$v=19$m=019456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["a sign", `$argon2id$v=19$m=+19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["argon2i", `$argon2i$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["argon2d", `$argon2d$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["version 1.0", `$argon2id$v=16$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["no version", `$argon2id$m=19456,t=2,p=1$${SALT}$${OUTPUT}`],
  ["one parameter twice and one missing", `$argon2id$v=19$m=19456,t=2,t=2$${SALT}$${OUTPUT}`],
  ["two parameters", `$argon2id$v=19$m=19456,t=2$${SALT}$${OUTPUT}`],
  ["an unknown parameter", `$argon2id$v=19$m=19456,t=2,p=1,keyid=AAAA$${SALT}$${OUTPUT}`],
  ["a salt of 8 bytes", `$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$${OUTPUT}`],
  ["an output of 4 bytes", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$qB0lIQ`],
  ["spare bits set in the salt", `$argon2id$v=19$m=19456,t=2,p=1$${SALT.slice(0, -1)}B$${OUTPUT}`],
  ["spare bits set in the output", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT.slice(0, -1)}x`],
  ["a line break after it", `$argon2id$v=19$m=19456,t=2,p=1$${SALT}$${OUTPUT}\n`],
  ["bcrypt", "$2b$12$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ012345"],
  ["nothing", ""],
])("a stored hash with %s is corrupt", (_what, text) => {
  expect(readStoredHash(text)).toBeUndefined();
});

function newPepper(): Pepper {
  const key = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (key === undefined) throw new Error("no key");
  return createPepper(key);
}

const logLines: string[] = [];
function hasherWith(peppers: { pepper?: Pepper; previousPepper?: Pepper }) {
  const metrics = createMetrics("test");
  return createPasswordHasher({
    costKey: Buffer.alloc(32, 7),
    argon2,
    parameters: QUICK,
    ...peppers,
    queue: createHashQueue({ concurrency: 2, maxWaiting: 10, maxWaitMs: 10_000, now: Date.now, metrics }),
    logger: createLogger("test", "info", { write: (line) => void logLines.push(line) }),
  });
}

const PASSWORD = "correct horse battery";
const account = (passwordHash: string) => ({ id: "u", passwordHash });
const pepper = newPepper();

test("a peppered hash names its pepper, matches with it, and is no hash of the password itself", async () => {
  const hasher = await hasherWith({ pepper });
  const hash = await hasher.hash(PASSWORD, soon());
  expect(hash).toContain(`$m=256,t=1,p=1,keyid=${pepper.id}$`);
  expect(await hasher.verify(account(hash), PASSWORD, soon())).toBe("match");
  expect(await hasher.verify(account(hash), "wrong", soon())).toBe("mismatch");
  expect(await argon2.verify(hash.replace(/,keyid=[^$]+/, ""), PASSWORD)).toBe(false);
});

test("a new pepper renews the hashes of the one before, and of none", async () => {
  const plain = await (await hasherWith({})).hash(PASSWORD, soon());
  const old = await (await hasherWith({ pepper })).hash(PASSWORD, soon());
  const rotated = await hasherWith({ pepper: newPepper(), previousPepper: pepper });
  for (const hash of [plain, old]) {
    expect(await rotated.verify(account(hash), PASSWORD, soon())).toBe("match_outdated");
    expect(await rotated.verify(account(hash), "wrong", soon())).toBe("mismatch");
  }
});

test("a pepper that is taken out of use renews its hashes as long as it is known", async () => {
  const old = await (await hasherWith({ pepper })).hash(PASSWORD, soon());
  const without = await hasherWith({ previousPepper: pepper });
  expect(await without.verify(account(old), PASSWORD, soon())).toBe("match_outdated");
  expect(await without.hash(PASSWORD, soon())).not.toContain("keyid");
});

test("without its pepper a hash matches nothing, and that is logged", async () => {
  const hash = await (await hasherWith({ pepper })).hash(PASSWORD, soon());
  logLines.length = 0;
  for (const peppers of [{}, { pepper: newPepper() }]) {
    expect(await (await hasherWith(peppers)).verify(account(hash), PASSWORD, soon())).toBe("mismatch");
  }
  expect(logLines).toHaveLength(2);
  expect(logLines.join()).toContain("unknown pepper");
});
