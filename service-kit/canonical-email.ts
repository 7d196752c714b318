import { domainToASCII } from "node:url";

const MAX_EMAIL_BYTES = 254;
const MAX_LOCAL_PART_BYTES = 64;

/** RFC 5321 Dot-string; beyond ASCII (RFC 6531) letters, digits and marks only: nothing invisible, no quoting. */
const LOCAL_PART = /^[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+)*$/u;

/** Checked before IDNA, because the WHATWG host parser behind it also takes escapes, ports and paths. */
const TYPED_DOMAIN = /^[\p{L}\p{N}\p{M}.-]+$/u;

/** At least two labels of 1 to 63 characters; the last is not a number, so an address literal is none. */
const ASCII_DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])$/;

/**
 * The one spelling under which an address is stored and looked up: NFC, the local part in lower case, the
 * domain by IDNA (UTS #46) in lower case ASCII. Canonical addresses are their own canonical form.
 *
 * @returns undefined unless the address is one: exactly one `@`, no white space or control characters, no
 *   quoted local part, at least two domain labels; at most 254 octets of UTF-8, the local part at most 64.
 * @see RFC 5321 §4.1.2 and §4.5.3.1, RFC 6531 §3.3.
 */
export function canonicalEmail(typed: string): string | undefined {
  // Canonical forms can be longer than what was typed, never three times shorter.
  if (typed.length > 3 * MAX_EMAIL_BYTES || !typed.isWellFormed()) return undefined;
  const [typedLocalPart, typedDomain, ...rest] = typed.normalize("NFC").split("@");
  if (typedLocalPart === undefined || typedDomain === undefined || rest.length > 0) return undefined;
  if (!TYPED_DOMAIN.test(typedDomain)) return undefined;
  const domain = domainToASCII(typedDomain);
  const localPart = typedLocalPart.toLowerCase().normalize("NFC");
  if (!LOCAL_PART.test(localPart) || !ASCII_DOMAIN.test(domain)) return undefined;
  const email = `${localPart}@${domain}`;
  const fits =
    Buffer.byteLength(localPart) <= MAX_LOCAL_PART_BYTES && Buffer.byteLength(email) <= MAX_EMAIL_BYTES;
  return fits ? email : undefined;
}

/**
 * Whether an address is spelled with characters that only look like others: full-width letters, ligatures, a long s. A new
 * account must not have such an address, for people would take it for another's.
 *
 * @param email canonical.
 * @see Unicode Standard Annex #15, NFKC.
 */
export function isLookAlike(email: string): boolean {
  return email.normalize("NFKC").toLowerCase() !== email;
}

/** The part of a canonical address before the `@`. */
export function localPartOf(email: string): string {
  return email.slice(0, email.lastIndexOf("@"));
}
