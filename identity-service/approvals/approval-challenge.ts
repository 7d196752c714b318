import { createHash } from "node:crypto";
import type { Approval } from "./approval-store.ts";

/** What a passkey signs: 32 bytes that stand for one transaction and one asking. */
export function approvalChallenge({ nonce, digest }: Pick<Approval, "nonce" | "digest">): Buffer {
  return createHash("sha256").update(nonce).update(digest).digest();
}
