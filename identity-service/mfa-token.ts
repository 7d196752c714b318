import { createHash } from "node:crypto";

const BYTES = 32;

/** A new tempToken: 256 bits in base64url, without meaning. */
export function newMfaToken(randomBytes: (count: number) => Buffer): string {
  return randomBytes(BYTES).toString("base64url");
}

/** What is stored of a tempToken. @returns undefined for a text that is none of ours. */
export function mfaTokenHash(token: string): Buffer | undefined {
  return /^[\w-]{43}$/.test(token) ? createHash("sha256").update(token).digest() : undefined;
}
