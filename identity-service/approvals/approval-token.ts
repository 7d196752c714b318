import { createHash } from "node:crypto";

const BYTES = 32;

/** 256 random bits in base64url. */
export function newApprovalToken(randomBytes: (count: number) => Buffer): string {
  return randomBytes(BYTES).toString("base64url");
}

/** For storage. Undefined for an invalid format. */
export function approvalTokenHash(token: string): Buffer | undefined {
  return /^[\w-]{43}$/.test(token) ? createHash("sha256").update(token).digest() : undefined;
}
