import { canonicalEmail, isAsciiMailbox, isLookAlike } from "#kit/values/canonical-email.ts";
import type { FieldProblem } from "#kit/values/errors.ts";

/** @param smtpUtf8 whether the mail server takes letters beyond ASCII before the @. */
export function typedEmail(
  field: "email" | "newEmail",
  typed: string,
  smtpUtf8: boolean,
): { email: string; problem?: never } | { problem: FieldProblem; email?: never } {
  const email = canonicalEmail(typed);
  const problem = (message: string) => ({ problem: { field, code: "invalid_format", message } as const });
  if (email === undefined || isLookAlike(email)) return problem("must be an e-mail address");
  if (!smtpUtf8 && !isAsciiMailbox(email))
    return problem("must have only ASCII characters before the @: mails cannot be sent to others here");
  return { email };
}
