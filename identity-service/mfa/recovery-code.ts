import { createHash } from "node:crypto";
import { ScureBase32Plugin } from "otplib";

/** RFC 4648 §6: no 0, 1 or 8, which would be read as letters. */
const base32 = new ScureBase32Plugin();

const COUNT = 10;
/** 80 bits: 16 characters. */
const BYTES = 10;

/**
 * Ten new recovery codes of 80 bits, as a person reads them: `ABCD-EFGH-IJKL-MNOP`.
 *
 * @param randomBytes cryptographically random.
 */
export function newRecoveryCodes(randomBytes: (count: number) => Buffer): string[] {
  return Array.from({ length: COUNT }, () =>
    base32.encode(randomBytes(BYTES)).replaceAll(/.{4}(?=.)/g, "$&-"),
  );
}

/** A typed code in its one spelling: upper case, without spaces and dashes. */
export function normalCode(typed: string): string {
  return typed.replace(/[\s\p{Pd}]/gu, "").toUpperCase();
}

/**
 * What is stored of a recovery code. A fast hash is enough: nobody guesses 80 random bits.
 *
 * @param code in its one spelling.
 * @returns undefined if it has not the form of one.
 */
export function recoveryCodeHash(code: string): Buffer | undefined {
  return /^[A-Z2-7]{16}$/.test(code) ? createHash("sha256").update(code).digest() : undefined;
}
