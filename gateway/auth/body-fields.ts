import { z } from "zod";
import { OPTIONAL_NAME, PERSONAL_NAME } from "#kit/values/unseen.ts";
import { textField } from "../routing/fields.ts";

/** Allows international addresses. identity-service decides. */
const EMAIL =
  /^(?!\.)(?!.*\.\.)[^\s@"\p{C}]{1,64}(?<!\.)@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+[\p{L}\p{N}][\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}]$/u;
/** Six digits, or a recovery code of 16 letters and digits with optional spaces and dashes. */
const CODE = /^(?:[0-9]{6}|[A-Za-z2-7](?:[ \p{Pd}]{0,3}[A-Za-z2-7]){15})$/u;

export const emailField = z
  .email({ pattern: EMAIL })
  .max(254)
  .meta({ id: "Email", format: "idn-email", examples: ["ada@example.com"] });
export const passwordField = textField(1, 1_024, { format: "password", examples: ["Correct-Horse-42"] });
const MAX_NEW_PASSWORD_CODE_POINTS = 128;
/** An existing password may be any text. */
export const newPasswordField = z
  .string()
  .min(1)
  .check(({ value, issues }) => {
    if ([...value.normalize("NFC")].length <= MAX_NEW_PASSWORD_CODE_POINTS) return;
    issues.push({ code: "too_big", origin: "string", maximum: MAX_NEW_PASSWORD_CODE_POINTS, input: value });
  })
  .meta({ format: "password", maxLength: MAX_NEW_PASSWORD_CODE_POINTS, examples: ["Correct-Horse-42"] });
export const newPasswordCodes = [
  "password_too_short",
  "password_too_common",
  "password_contains_email",
] as const;
export const nameField = z
  .string()
  .min(1)
  .max(100)
  .regex(PERSONAL_NAME, "must be printable text")
  .meta({ id: "FirstName", examples: ["Ada"] });
export const lastNameField = z
  .string()
  .max(100)
  .regex(OPTIONAL_NAME, "must be printable text")
  .meta({ id: "LastName", description: "Empty for a person with one name.", examples: ["Lovelace"] });
export const languageField = z
  .string()
  .max(35)
  .meta({ description: "Of mails: a BCP 47 tag.", examples: ["de-AT"] });
export const timeZoneField = z
  .string()
  .max(64)
  .meta({ description: "Of times in mails: an IANA name.", examples: ["Europe/Vienna"] });
export const codeField = z
  .string()
  .max(64, { abort: true })
  .regex(CODE, "must be six digits or a recovery code")
  .meta({ examples: ["492039"] });
/** Longer than any tempToken. Another text has its own error code. */
export const tempTokenField = textField(1, 200, {
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
/** Longer than any link token. Another text has its own error code. */
export const linkTokenField = textField(1, 200, {
  description: "From the mail.",
  examples: ["dGhpcyBpcyBub3QgYSB0b2tlbg"],
});
/** identity-service's configuration lists the values. */
export const returnToField = textField(1, 2_048, {
  description: "Where the browser goes at the end: exactly one of those that the operator allows.",
  examples: ["https://app.example.com/signed-in"],
});

/** As docs/decisions/login-and-assurance.md says. */
export const OWN_LEVEL =
  "A user with a second factor needs a session at level 2, proven within five minutes: else 401 `step_up_required`.";
