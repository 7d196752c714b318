import { DomainError } from "#kit/values/errors.ts";
import type { Account } from "../users/account.ts";
import type { HashShare } from "./hash-share.ts";
import type { PasswordHasher } from "./password-hasher.ts";

export interface HashNewPasswordDeps {
  passwords: Pick<PasswordHasher, "hash" | "verify">;
  hashShare: HashShare;
}

export interface NewPassword {
  newPassword: string;
  /** Not counted if empty. */
  clientIp: string;
}

/** Returns a PHC string. @throws {DomainError} `password_unchanged`. */
export function hashNewPassword(
  { passwords, hashShare }: HashNewPasswordDeps,
  account: Pick<Account, "id" | "passwordHash" | "mustChangePassword">,
  { newPassword, clientIp }: NewPassword,
  deadlineMs: number,
): Promise<string> {
  return hashShare.run({ clientIp, isKnown: true }, async () => {
    // Only for a required change, because it costs a hash.
    if (account.mustChangePassword && account.passwordHash !== null) {
      const verdict = await passwords.verify(account, newPassword, deadlineMs);
      if (verdict !== "mismatch") throw new DomainError("password_unchanged");
    }
    return passwords.hash(newPassword, deadlineMs);
  });
}
