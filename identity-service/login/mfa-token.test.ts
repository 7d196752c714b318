import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { mfaTokenHash, newMfaToken } from "./mfa-token.ts";

test("a tempToken is 256 random bits in base64url, and only its SHA-256 is stored", () => {
  const { tempToken, tokenHash } = newMfaToken((count) => Buffer.alloc(count, 0xff));
  expect(tempToken).toBe(`${"_".repeat(42)}8`);
  expect(tokenHash).toEqual(createHash("sha256").update(tempToken).digest());
  expect(mfaTokenHash(tempToken)).toEqual(tokenHash);
});

test.each(["", "a".repeat(42), "a".repeat(44), `${"a".repeat(42)}.`, `${"a".repeat(43)}\n`])(
  "%j is no tempToken",
  (text) => expect(mfaTokenHash(text)).toBeUndefined(),
);
