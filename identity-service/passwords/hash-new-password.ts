import { DomainError } from "../../service-kit/errors.ts";
import type { HashShare } from "./hash-share.ts";
import type { PasswordHasher } from "./password-hasher.ts";

export interface HashNewPasswordDeps {
  passwords: Pick<PasswordHasher, "hash" | "verify">;
  hashShare: HashShare;
}

export interface NewPassword {
  userId: string;
  newPassword: string;
  passwordHash: string | null;
  /** A required change must differ from the current password. Otherwise the comparison would waste a hash. */
  mustChangePassword: boolean;
  /** Not counted if empty. */
  clientIp: string;
}

/** Returns a PHC string. The caller counts as known. @throws {DomainError} `password_unchanged`. */
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
