import { createHash } from "node:crypto";

const BYTES = 32;

/** 256 random bits in base64url, and their SHA-256 for storage. */
export function newMfaToken(randomBytes: (count: number) => Buffer): {
  tempToken: string;
  tokenHash: Buffer;
} {
  const tempToken = randomBytes(BYTES).toString("base64url");
  return { tempToken, tokenHash: sha256(tempToken) };
}

/** Undefined for an invalid format. */
export function mfaTokenHash(token: string): Buffer | undefined {
  return /^[\w-]{43}$/.test(token) ? sha256(token) : undefined;
}

function sha256(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}
