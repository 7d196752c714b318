import encodeQR from "qr";
import { DomainError } from "../../service-kit/errors.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { isStill, type Reauthentication, reauthenticate } from "../passwords/reauthenticate.ts";
import { lockAccount } from "../users/account-store.ts";
import type { MfaChangeDeps } from "./mfa-deps.ts";
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
 * Requires proven credentials, so that a registration with another person's address cannot lock its owner out.
 * @throws {DomainError} `invalid_credentials`, `email_not_verified`, `mfa_already_enabled`.
 */
export async function beginTotpEnrollment(
  deps: MfaChangeDeps,
  request: Reauthentication,
  deadlineMs: number,
): Promise<TotpEnrollment> {
  const { userId } = request;
  const checked = await reauthenticate(deps, request, deadlineMs);
  const secret = deps.randomBytes(TOTP_SECRET_BYTES);
  const sealed = sealTotpSecret(deps.mfaKeys, userId, secret);
  await transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    if (!isStill(checked, account)) throw new DomainError("invalid_credentials");
    if (account.credentialsProvenAt === null) throw new DomainError("email_not_verified");
    const isKept = await replaceUnconfirmedSecret(tx, { userId, createdAt: deps.now(), ...sealed });
    if (!isKept) throw new DomainError("mfa_already_enabled");
  });
  const url = otpauthUrl(secret, deps.mfaIssuer, checked.email);
  return { secret: totpSecretText(secret), otpauthUrl: url, qrCode: qrCodeDataUrl(url) };
}

/** `data:image/svg+xml;base64,…` with a quiet zone of 4 modules (ISO/IEC 18004 §6.3.8). */
function qrCodeDataUrl(text: string): string {
  const svg = encodeQR(text, "svg", { ecc: "medium", border: 4 });
  return `data:image/svg+xml;base64,${Buffer.from(svg).toString("base64")}`;
}
