import { domainToASCII } from "node:url";

const MAX_EMAIL_BYTES = 254;
const MAX_LOCAL_PART_BYTES = 64;

/** RFC 5321 Dot-string. Beyond ASCII (RFC 6531) only letters, digits and marks. */
const LOCAL_PART = /^[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{N}\p{M}!#$%&'*+/=?^_`{|}~-]+)*$/u;

/** `domainToASCII` also accepts escapes, ports and paths. */
const TYPED_DOMAIN = /^[\p{L}\p{N}\p{M}.-]+$/u;

/** The letter in the last label excludes IP addresses. */
const ASCII_DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z](?:[a-z0-9-]{0,61}[a-z0-9])$/;

/**
 * NFC, local part in lower case, domain as ASCII (UTS #46). Undefined for an invalid address.
 * @see RFC 5321 §4.1.2 and §4.5.3.1, RFC 6531 §3.3.
 */
export function canonicalEmail(typed: string): string | undefined {
  // The canonical form is at least a third as long.
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

/** Compatibility characters can imitate another address (UAX #15). @param email canonical. */
export function isLookAlike(email: string): boolean {
  return email.normalize("NFKC").toLowerCase() !== email;
}

export function localPartOf(email: string): string {
  return email.slice(0, email.lastIndexOf("@"));
}

/**
 * The address without the part after `+`, which many servers deliver to the same mailbox (RFC 5233 §2). Only for counting:
 * with other servers it is another person's. @param email canonical.
 */
export function mailboxOf(email: string): string {
  const localPart = localPartOf(email);
  const tag = localPart.indexOf("+", 1);
  return tag === -1 ? email : localPart.slice(0, tag) + email.slice(localPart.length);
}

/** Whether any mail server takes it. Others need SMTPUTF8 (RFC 6531). The domain has an ASCII form. */
export function isAsciiMailbox(email: string): boolean {
  return /^\p{ASCII}*$/u.test(localPartOf(email));
}
