import { createHash } from "node:crypto";
import { ScureBase32Plugin } from "otplib";

/** RFC 4648 §6. The alphabet lacks the ambiguous 0, 1 and 8. */
const base32 = new ScureBase32Plugin();

const COUNT = 10;
const BYTES = 10;

/** Form `ABCD-EFGH-IJKL-MNOP`, 80 bits each. */
export function newRecoveryCodes(randomBytes: (count: number) => Buffer): string[] {
  return Array.from({ length: COUNT }, () =>
    base32.encode(randomBytes(BYTES)).replaceAll(/.{4}(?=.)/g, "$&-"),
  );
}

export function normalCode(typed: string): string {
  return typed.replace(/[\s\p{Pd}]/gu, "").toUpperCase();
}

/** SHA-256; a fast hash suffices for 80 random bits. Undefined if invalid. */
export function recoveryCodeHash(code: string): Buffer | undefined {
  return /^[A-Z2-7]{16}$/.test(code) ? createHash("sha256").update(code).digest() : undefined;
}
