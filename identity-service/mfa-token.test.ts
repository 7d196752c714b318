import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { mfaTokenHash, newMfaToken } from "./mfa-token.ts";

test("a tempToken is 256 random bits in base64url, and what is stored of it is its SHA-256", () => {
  const token = newMfaToken((count) => Buffer.alloc(count, 0xff));
  expect(token).toBe(`${"_".repeat(42)}8`);
  expect(mfaTokenHash(token)).toEqual(createHash("sha256").update(token).digest());
});

test.each(["", "a".repeat(42), "a".repeat(44), `${"a".repeat(42)}.`, `${"a".repeat(43)}\n`])(
  "%j is no tempToken",
  (text) => expect(mfaTokenHash(text)).toBeUndefined(),
);
