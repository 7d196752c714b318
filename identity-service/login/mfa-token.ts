import { createHash } from "node:crypto";

const BYTES = 32;

/** A new tempToken: 256 bits in base64url, without meaning; and what is stored of it. */
export function newMfaToken(randomBytes: (count: number) => Buffer): {
  tempToken: string;
  tokenHash: Buffer;
} {
  const tempToken = randomBytes(BYTES).toString("base64url");
  return { tempToken, tokenHash: sha256(tempToken) };
}

/** What is stored of a tempToken. @returns undefined for a text that is none of ours. */
export function mfaTokenHash(token: string): Buffer | undefined {
  return /^[\w-]{43}$/.test(token) ? sha256(token) : undefined;
}

function sha256(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
