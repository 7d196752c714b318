import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { newTestKey } from "../testing/test-deps.ts";
import { openTotpSecret, sealTotpSecret } from "./totp-secret.ts";

const ANNA = "019a0000-0000-7000-8000-000000000001";
const BEN = "019a0000-0000-7000-8000-000000000002";
const key = newTestKey();
const secret = randomBytes(20);

test("a secret comes back, and is not readable in between, nor the same twice", () => {
  const sealed = sealTotpSecret([key], ANNA, secret);
  expect(openTotpSecret([key], ANNA, sealed)).toEqual(secret);
  expect(sealed.secretEncrypted).toHaveLength(12 + 20 + 16);
  expect(sealed.secretEncrypted.includes(secret)).toBe(false);
  expect(sealTotpSecret([key], ANNA, secret).secretEncrypted).not.toEqual(sealed.secretEncrypted);
});

test("a secret with any byte changed is refused", () => {
  const sealed = sealTotpSecret([key], ANNA, secret);
  for (let index = 0; index < sealed.secretEncrypted.length; index += 1) {
    const tampered = Buffer.from(sealed.secretEncrypted);
    tampered.writeUInt8(tampered.readUInt8(index) ^ 1, index);
    expect(() => openTotpSecret([key], ANNA, { ...sealed, secretEncrypted: tampered })).toThrow();
  }
});

test("a secret that was copied to another user's row is refused", () => {
  const sealed = sealTotpSecret([key], ANNA, secret);
  expect(() => openTotpSecret([key], BEN, sealed)).toThrow();
});

test("after a change of keys the earlier one still reads; without it the error names the key and no secret", () => {
  const sealed = sealTotpSecret([key], ANNA, secret);
  const next = newTestKey();
  expect(openTotpSecret([next, key], ANNA, sealed)).toEqual(secret);
  expect(() => openTotpSecret([next], ANNA, sealed)).toThrow(
    `is encrypted with key ${key.id}, which is not configured`,
  );
  expect(() => openTotpSecret([next, key], ANNA, { ...sealed, keyId: next.id })).toThrow();
});
