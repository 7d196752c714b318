import encodeQR from "qr";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type OwnerSession, proveOwner } from "../passwords/prove-owner.ts";
import { isStill, type Reauthentication } from "../passwords/reauthenticate.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import type { MfaDeps } from "./check-mfa-code.ts";
import { replaceUnconfirmedSecret } from "./mfa-store.ts";
import { otpauthUrl, TOTP_SECRET_BYTES, totpSecretText } from "./totp.ts";
import { sealTotpSecret } from "./totp-secret.ts";

/** Never logged. */
export interface TotpEnrollment {
  /** Base32. */
  secret: string;
  otpauthUrl: string;
  /** `data:image/svg+xml;base64,…` */
  qrCode: string;
}

/**
 * Requires proven credentials, so that a registration cannot lock the owner of its address out.
 * @throws {DomainError} `step_up_required`, `invalid_credentials`, `email_not_verified`, `mfa_already_enabled`.
 */
export async function beginTotpEnrollment(
  deps: MfaDeps,
  request: Reauthentication & OwnerSession,
  deadlineMs: number,
): Promise<TotpEnrollment> {
  const checked = await proveOwner(deps, "beginTotp", request, deadlineMs);
  return transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, request.userId);
    if (!isStill(checked, account)) throw new DomainError("invalid_credentials");
    if (account.credentialsProvenAt === null) throw new DomainError("email_not_verified");
    return newTotpSecret(tx, deps, account);
  });
}

/** Replaces an unconfirmed secret. @throws {DomainError} `mfa_already_enabled`. */
export async function newTotpSecret(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "mfaKeys" | "mfaIssuer" | "now" | "randomBytes">,
  { id: userId, email }: Locked<Account>,
): Promise<TotpEnrollment> {
  const secret = deps.randomBytes(TOTP_SECRET_BYTES);
  const sealed = sealTotpSecret(deps.mfaKeys, userId, secret);
  const isKept = await replaceUnconfirmedSecret(tx, { userId, createdAt: deps.now(), ...sealed });
  if (!isKept) throw new DomainError("mfa_already_enabled");
  const url = otpauthUrl(secret, deps.mfaIssuer, email);
  return { secret: totpSecretText(secret), otpauthUrl: url, qrCode: qrCodeDataUrl(url) };
}

/** The border is 4 modules (ISO/IEC 18004 §6.3.8). */
function qrCodeDataUrl(text: string): string {
  const svg = encodeQR(text, "svg", { ecc: "medium", border: 4 });
  return `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`;
}
