import { z } from "zod";
import { textField } from "../routing/fields.ts";

/** A first check, wide enough for international addresses; identity-service has the last word. */
const EMAIL =
  /^(?!\.)(?!.*\.\.)[^\s@"\p{C}]{1,64}(?<!\.)@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+[\p{L}\p{N}][\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}]$/u;
/** A name has something to read in it and nothing that does not print. */
const NAME = /^(?=.*[^\p{Z}])\P{C}+$/u;

export const emailField = z
  .email({ pattern: EMAIL })
  .max(254)
  .meta({ format: "idn-email", examples: ["ada@example.com"] });
export const passwordField = textField(1, 1_024, { format: "password", examples: ["Correct-Horse-42"] });
const MAX_NEW_PASSWORD_CODE_POINTS = 128;
/** What identity-service takes as a new password; one that exists may be any text. */
export const newPasswordField = z
  .string()
  .min(1)
  .check(({ value, issues }) => {
    if ([...value.normalize("NFC")].length <= MAX_NEW_PASSWORD_CODE_POINTS) return;
    issues.push({ code: "too_big", origin: "string", maximum: MAX_NEW_PASSWORD_CODE_POINTS, input: value });
  })
  .meta({ format: "password", maxLength: MAX_NEW_PASSWORD_CODE_POINTS, examples: ["Correct-Horse-42"] });
/** What the password policy refuses. */
export const newPasswordCodes = [
  "password_too_short",
  "password_too_common",
  "password_contains_email",
] as const;
export const nameField = z
  .string()
  .min(1)
  .max(100)
  .regex(NAME, "must be printable text")
  .meta({ examples: ["Ada"] });
/** Longer than any tempToken; what is not one of ours is refused by its own code. */
export const tempTokenField = textField(1, 200, {
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
/** Longer than any token of a link; what is not one of ours is refused by its own code. */
export const linkTokenField = textField(1, 200, {
  description: "From the mail.",
  examples: ["dGhpcyBpcyBub3QgYSB0b2tlbg"],
});
/** Of the list in identity-service's configuration. */
export const returnToField = textField(1, 2_048, {
  description: "Where the browser goes at the end: exactly one of those that the operator allows.",
  examples: ["https://app.example.com/signed-in"],
});
