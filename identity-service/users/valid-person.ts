import { canonicalEmail, isAsciiMailbox, isLookAlike } from "#kit/values/canonical-email.ts";
import { DomainError, type FieldProblem } from "#kit/values/errors.ts";
import type { Account, NewAccount } from "./account.ts";
import { personalName } from "./personal-name.ts";
import { readerFields } from "./reader-fields.ts";

type Person = Pick<NewAccount, "email" | "firstName" | "lastName">;

/** @throws {DomainError} `validation_failed`. */
export function validPerson(
  typed: Person & Parameters<typeof readerFields>[0],
  smtpUtf8: boolean,
): Person & Pick<Account, "language" | "timeZone"> {
  const { email, problem } = typedEmail("email", typed.email, smtpUtf8);
  const first = personalName("firstName", typed.firstName);
  const last = personalName("lastName", typed.lastName);
  const { language = null, timeZone = null, problems } = readerFields(typed);
  if (
    problem === undefined &&
    first.problem === undefined &&
    last.problem === undefined &&
    problems.length === 0
  ) {
    return { email, firstName: first.name, lastName: last.name, language, timeZone };
  }
  const fields = [problem, first.problem, last.problem, ...problems].filter((found) => found !== undefined);
  throw new DomainError("validation_failed", undefined, { fields });
}

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
