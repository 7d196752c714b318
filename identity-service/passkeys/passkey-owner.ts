import { createHash } from "node:crypto";
import { DomainError } from "../../service-kit/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";

/** A logged-in user who changes passkeys. */
export interface PasskeyOwner extends ClientOrigin {
  userId: string;
  sessionId: string;
  authTime: Date;
}

/** Within which a stolen session cannot change how one logs in. */
const FRESH_MS = 5 * 60_000;

/** @throws {DomainError} `step_up_required`. */
export function assertFresh(now: Date, { authTime }: PasskeyOwner): void {
  if (now.getTime() - authTime.getTime() > FRESH_MS) throw new DomainError("step_up_required");
}

/** To what a registration's challenge is bound. */
export function sessionBinding(sessionId: string): Buffer {
  return createHash("sha256").update(sessionId).digest();
}
