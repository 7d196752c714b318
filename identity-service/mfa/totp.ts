import { generateURI, ScureBase32Plugin, verifySync } from "otplib";

const base32 = new ScureBase32Plugin();

/** RFC 6238, as all authenticator apps support it. */
const PERIOD_S = 30;
const DIGITS = 6;

/** RFC 4226 §4 (R6) recommends 160 bits. */
export const TOTP_SECRET_BYTES = 20;

/**
 * Accepts the current and the previous step (RFC 6238 §5.2). With 30 s in total (OWASP ASVS 5.0 §6.5.5), codes would
 * expire while being typed.
 */
export function totpStep(secret: Buffer, code: string, at: Date): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const result = verifySync({
    secret,
    token: code,
    epoch: Math.floor(at.getTime() / 1_000),
    epochTolerance: [PERIOD_S, 0],
    period: PERIOD_S,
    digits: DIGITS,
    algorithm: "sha1",
  });
  return result.valid && "timeStep" in result ? result.timeStep : undefined;
}

/** Base32 without padding (RFC 4648 §6). */
export function totpSecretText(secret: Buffer): string {
  return base32.encode(secret);
}

/** @see https://github.com/google/google-authenticator/wiki/Key-Uri-Format */
export function otpauthUrl(secret: Buffer, issuer: string, label: string): string {
  return generateURI({
    strategy: "totp",
    secret: totpSecretText(secret),
    issuer,
    label,
    algorithm: "sha1",
    digits: DIGITS,
    period: PERIOD_S,
  });
}
