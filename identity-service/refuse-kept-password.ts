import { DomainError } from "../service-kit/errors.ts";
import type { PasswordHasher } from "./password-hasher.ts";

/** An account whose password is about to be replaced. */
export interface KeptPassword {
  userId: string;
  passwordHash: string | null;
}

/**
 * Refuses the present password as the new one. Only where it must be changed: elsewhere a user may set it again, and
 * it would cost a hash.
 *
 * @throws {DomainError} `password_unchanged`; `busy`.
 */
export async function refuseKeptPassword(
  passwords: Pick<PasswordHasher, "verify">,
  { userId, passwordHash }: KeptPassword,
  newPassword: string,
  deadlineMs: number,
): Promise<void> {
  if (passwordHash === null) return;
  const verdict = await passwords.verify({ user: { id: userId }, passwordHash }, newPassword, deadlineMs);
  if (verdict !== "mismatch") throw new DomainError("password_unchanged");
}
