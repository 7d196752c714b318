import type { Account } from "../users/account.ts";

export type SecondFactor = "passkey" | "totp" | "recovery_code";

/** In the order in which clients should offer them. */
export function secondFactorsOf(
  user: Pick<Account, "hasTotp" | "passkeyCount" | "mfaEnabled">,
): SecondFactor[] {
  return [
    ...(user.passkeyCount > 0 ? (["passkey"] as const) : []),
    ...(user.hasTotp ? (["totp"] as const) : []),
    ...(user.mfaEnabled ? (["recovery_code"] as const) : []),
  ];
}
