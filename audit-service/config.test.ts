import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { configSchema } from "./config.ts";
import { parseCheckpointKey } from "./log/checkpoint.ts";

const pem = (key: ReturnType<typeof generateKeyPairSync>["privateKey"]) =>
  key.export({ type: "pkcs8", format: "pem" }).toString();

test("a checkpoint key must be an Ed25519 private key as PEM (PKCS#8)", () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  expect(parseCheckpointKey(pem(privateKey))?.asymmetricKeyType).toBe("ed25519");
  const others = [
    pem(generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey),
    pem(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey),
    publicKey.export({ type: "spki", format: "pem" }).toString(),
    "",
    "no key",
  ];
  for (const text of others) expect(parseCheckpointKey(text)).toBeUndefined();
});

test.each([
  ["gatehouse.example/audit", true],
  ["gatehouse.example/audit/eu-1", true],
  ["gatehouse.example", false],
  ["gatehouse.example/a b", false],
  ["gatehouse.example/a+b", false],
  ["https://gatehouse.example/audit", false],
  ["", false],
])("origin %j: %s", (origin, isRight) => {
  expect(configSchema.shape.CHECKPOINT_ORIGIN.safeParse(origin).success).toBe(isRight);
});
