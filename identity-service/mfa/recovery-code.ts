import { createHash } from "node:crypto";
import { ScureBase32Plugin } from "otplib";
import { DomainError } from "#kit/values/errors.ts";

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

export type ParsedCode = { kind: "totp"; digits: string } | { kind: "recovery_code"; hash: Buffer };

const TOTP_CODE = /^[0-9]{6}$/;

/** Recovery codes may have spaces, dashes and lower case. @throws {DomainError} `validation_failed`. */
export function parseCode(typed: string): ParsedCode {
  if (TOTP_CODE.test(typed)) return { kind: "totp", digits: typed };
  const hash = recoveryCodeHash(normalCode(typed));
  if (hash !== undefined) return { kind: "recovery_code", hash };
  const message = "must be six digits or a recovery code";
  throw new DomainError("validation_failed", undefined, {
    fields: [{ field: "code", code: "invalid_format", message }],
  });
}
