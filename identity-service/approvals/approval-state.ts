import type { Approval } from "./approval-store.ts";

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
