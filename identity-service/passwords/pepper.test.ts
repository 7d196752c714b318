import { randomBytes } from "node:crypto";
import * as argon2 from "@node-rs/argon2";
import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { QUICK, soon } from "../testing/test-deps.ts";
import { createHashQueue } from "./hash-queue.ts";
import { createPasswordHasher } from "./password-hasher.ts";
import { createPepper, type Pepper } from "./pepper.ts";

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
