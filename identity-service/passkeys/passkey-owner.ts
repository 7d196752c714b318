import { createHash } from "node:crypto";
import { type AssuranceLevel, assertAssured } from "../../token-client/assurance.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { Account } from "../users/account.ts";

/** A logged-in user who changes passkeys. */
export interface PasskeyOwner extends ClientOrigin {
  userId: string;
  sessionId: string;
  /** Of the session. */
  acr: AssuranceLevel;
  authTime: Date;
}

/** After which a stolen session cannot change how one logs in. */
const FRESH_S = 5 * 60;

/**
 * Of a user with a second factor, a session of one factor cannot either: a trusted device begins such ones.
 * @throws {DomainError} `step_up_required`.
 */
export function assertFresh(now: Date, owner: PasskeyOwner, user: Pick<Account, "mfaEnabled">): void {
  const acr = user.mfaEnabled ? 2 : 1;
  assertAssured({ acr, maxAgeSeconds: FRESH_S }, owner, now.getTime());
}

/** To what a registration's challenge is bound. */
export function sessionBinding(sessionId: string): Buffer {
  return createHash("sha256").update(sessionId).digest();
}
