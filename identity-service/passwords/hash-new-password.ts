import { DomainError } from "../../service-kit/errors.ts";
import type { HashShare } from "./hash-share.ts";
import type { PasswordHasher } from "./password-hasher.ts";

export interface HashNewPasswordDeps {
  passwords: Pick<PasswordHasher, "hash" | "verify">;
  hashShare: HashShare;
}

/** A password that is about to replace an account's. */
export interface NewPassword {
  userId: string;
  newPassword: string;
  /** PHC string of the present one; null if there is none. */
  passwordHash: string | null;
  /** Where it must be changed the present one is refused. Elsewhere a user may set it again, and it would cost a hash. */
  mustChangePassword: boolean;
  /** Empty (a gateway of an earlier version): not counted. */
  clientIp: string;
}

/**
 * Hashes a new password, within its network's share of the hashes. Whoever sets one has proven who they are: by a
 * session, a link or a login.
 *
 * @returns a PHC string.
 * @throws {DomainError} `password_unchanged`; `busy`.
 */
export function hashNewPassword(
  { passwords, hashShare }: HashNewPasswordDeps,
  { userId, newPassword, passwordHash, mustChangePassword, clientIp }: NewPassword,
  deadlineMs: number,
): Promise<string> {
  return hashShare.run({ clientIp, isKnown: true }, async () => {
    if (mustChangePassword && passwordHash !== null) {
      const verdict = await passwords.verify({ user: { id: userId }, passwordHash }, newPassword, deadlineMs);
      if (verdict !== "mismatch") throw new DomainError("password_unchanged");
    }
    return passwords.hash(newPassword, deadlineMs);
  });
}
