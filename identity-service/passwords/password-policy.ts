// The package's entry point takes 20 MB instead of 3 MB.
import ranked from "@zxcvbn-ts/language-common/src/passwords.json" with { type: "json" };
import { localPartOf } from "#kit/values/canonical-email.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { BreachLookup } from "./breach-lookup.ts";

const MAX_PASSWORD_CODE_POINTS = 128;
/** Minimum of OWASP ASVS 5.0 §6.2.4. */
const COMMON_PASSWORDS = 3_000;

/** Shorter local parts occur in too many words. See docs/decisions/passwords.md. */
const MIN_CONTEXT_CODE_POINTS = 3;

/** Not counted in the length. */
const INVISIBLE = /[\p{Cc}\p{Cf}]/gu;

export interface PasswordPolicy {
  /** Code points after NFC, without invisible ones. */
  minLength: number;
  /** Lower case. */
  common: ReadonlySet<string>;
  /** Asked in this order, until one knows the password. */
  breaches?: readonly BreachLookup[] | undefined;
}

/**
 * No composition rules, no truncation (NIST SP 800-63B-4 §3.1.1.2, OWASP ASVS 5.0 §6.2). Its 15 characters for a password
 * that is the only factor are met by `minLength` 15, not by the default: see docs/decisions/passwords.md.
 * @throws {DomainError} `password_too_short`, `password_too_common`, `password_contains_email`; `validation_failed`
 * above 128 code points.
 */
export function checkPassword(
  policy: PasswordPolicy,
  password: string,
  email: string,
  field = "password",
): void {
  const text = password.normalize("NFC");
  const length = codePointsUpTo(MAX_PASSWORD_CODE_POINTS + 1, text);
  if (length > MAX_PASSWORD_CODE_POINTS || !text.isWellFormed()) throw unreadable(field, length);
  if (codePointsUpTo(policy.minLength, text.replace(INVISIBLE, "")) < policy.minLength) {
    throw new DomainError(
      "password_too_short",
      `The password must have at least ${policy.minLength} characters`,
    );
  }
  const folded = text.toLowerCase();
  if (policy.common.has(folded)) throw new DomainError("password_too_common");
  const localPart = localPartOf(email);
  const isContext = codePointsUpTo(MIN_CONTEXT_CODE_POINTS, localPart) === MIN_CONTEXT_CODE_POINTS;
  if (folded.includes(email) || (isContext && folded.includes(localPart))) {
    throw new DomainError("password_contains_email");
  }
}

/** May call an external service: use after `checkPassword`. @throws {DomainError} `password_too_common`. */
export async function refuseBreached({ breaches = [] }: PasswordPolicy, password: string): Promise<void> {
  for (const lookup of breaches) {
    if (await lookup.isBreached(password))
      throw new DomainError("password_too_common", "The password is known from a data breach.");
  }
}

/** Long inputs cost no more. */
function codePointsUpTo(limit: number, text: string): number {
  let count = 0;
  for (const _ of text) {
    count += 1;
    if (count === limit) break;
  }
  return count;
}

function unreadable(field: string, length: number): DomainError {
  const problem =
    length > MAX_PASSWORD_CODE_POINTS
      ? { code: "too_long", message: `must have at most ${MAX_PASSWORD_CODE_POINTS} characters` }
      : { code: "invalid_format", message: "must be Unicode text" };
  return new DomainError("validation_failed", undefined, { fields: [{ field, ...problem }] });
}

/** Lower case. `minLength` is in code points. */
export function commonPasswords(minLength: number): ReadonlySet<string> {
  return new Set(ranked.filter((password) => password.length >= minLength).slice(0, COMMON_PASSWORDS));
}
