import { createHash } from "node:crypto";
import type { Approval } from "./approval-store.ts";

const TOKEN_BYTES = 32;
/** Of wrong proofs. */
export const MAX_TRIES = 5;

export type ApprovalState = "pending" | "given" | "used" | "refused" | "expired";

export function approvalState(approval: Approval, now: Date): ApprovalState {
  if (approval.usedAt !== null) return "used";
  if (approval.refusedAt !== null) return "refused";
  if (approval.expiresAt <= now) return "expired";
  if (approval.method !== null) return "given";
  return approval.attempts < MAX_TRIES ? "pending" : "expired";
}

/** 256 random bits in base64url. */
export function newApprovalToken(randomBytes: (count: number) => Buffer): string {
  return randomBytes(TOKEN_BYTES).toString("base64url");
}

/** For storage. Undefined for an invalid format. */
export function approvalTokenHash(token: string): Buffer | undefined {
  return /^[\w-]{43}$/.test(token) ? createHash("sha256").update(token).digest() : undefined;
}

/** What a passkey signs: 32 bytes that stand for one transaction and one asking. */
export function approvalChallenge({ nonce, digest }: Pick<Approval, "nonce" | "digest">): Buffer {
  return createHash("sha256").update(nonce).update(digest).digest();
}
