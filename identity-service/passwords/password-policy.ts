import { localPartOf } from "../../service-kit/canonical-email.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { BreachLookup } from "./breach-lookup.ts";

export const MAX_PASSWORD_CODE_POINTS = 128;

/** Shorter local parts are in too many words: `al@…` may choose `vertical farming`. See decision 0010. */
const MIN_CONTEXT_CODE_POINTS = 3;

/** Control characters, and what has no width: they count for no length. */
const INVISIBLE = /[\p{Cc}\p{Cf}]/gu;

/** What a new password must be. */
export interface PasswordPolicy {
  /** In code points after NFC, without those that nobody sees. */
  minLength: number;
  /** In lower case. */
  common: ReadonlySet<string>;
  /** Absent: breaches are not looked up. */
  breaches?: BreachLookup | undefined;
}

/**
 * Refuses a new password that is easy to guess. There are no rules of composition, and nothing is cut off.
 * A password may not contain the e-mail address, nor its local part when that has 3 or more characters; a
 * shorter local part could only count if it were the whole password, and then the password is too short.
 *
 * @param email canonical.
 * @param field what the password is called in the request.
 * @throws {DomainError} `password_too_short`, `password_too_common`, `password_contains_email`;
 *   `validation_failed` above 128 code points.
 * @see NIST SP 800-63B-4 §3.1.1.2, OWASP ASVS 5.0 §6.2.
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

/**
 * Refuses a new password that is in a published breach, if breaches are looked up: after `checkPassword`, because it
 * asks another service. Never at login.
 *
 * @throws {DomainError} `password_too_common`.
 */
export async function refuseBreached({ breaches }: PasswordPolicy, password: string): Promise<void> {
  if ((await breaches?.isBreached(password)) !== true) return;
  throw new DomainError("password_too_common", "The password is known from a data breach.");
}

/** Counts no further than needed, so that a long text costs no more than a short one. */
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
