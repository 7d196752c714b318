import { createHash } from "node:crypto";

export const CLAIMED_EMAIL_SALT_BYTES = 32;

/** What the log holds of a claimed address, in lower-case hexadecimal: SHA-256(salt ‖ address in UTF-8). */
export function claimedEmailHash(salt: Uint8Array, address: string): string {
  return createHash("sha256").update(salt).update(address, "utf8").digest("hex");
}
