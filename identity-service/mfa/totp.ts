import { generateURI, ScureBase32Plugin, verifySync } from "otplib";

const base32 = new ScureBase32Plugin();

/** RFC 6238 with what every authenticator app understands. */
const PERIOD_S = 30;
const DIGITS = 6;

/** RFC 4226 §4 (R6) recommends 160 bits: as long as SHA-1's output. */
export const TOTP_SECRET_BYTES = 20;

/**
 * The time step whose code this is: the present one, or the one before it for codes that were typed slowly.
 *
 * The step before is RFC 6238 §5.2's allowance for the way of a code; OWASP ASVS 5.0 §6.5.5 asks for 30 s in all, which
 * without it would refuse codes that were right when they were read.
 *
 * @param secret 20 bytes.
 * @returns undefined if it is neither.
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

/** As a person types it: base32 without padding (RFC 4648 §6). */
export function totpSecretText(secret: Buffer): string {
  return base32.encode(secret);
}

/**
 * As an authenticator app reads it: `otpauth://totp/<issuer>:<label>?secret=…`.
 *
 * @see https://github.com/google/google-authenticator/wiki/Key-Uri-Format
 */
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
