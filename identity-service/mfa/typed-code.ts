import { DomainError } from "../../service-kit/errors.ts";
import { normalCode, recoveryCodeHash } from "./recovery-code.ts";

/** What has the form of a code: six digits of an authenticator app, or a recovery code. */
export type ParsedCode = { kind: "totp"; digits: string } | { kind: "recovery_code"; hash: Buffer };

/** Exactly: no spaces around it, no other script's digits. */
const TOTP_CODE = /^[0-9]{6}$/;

/**
 * @param typed a recovery code may have spaces, dashes and lower case letters.
 * @throws {DomainError} `validation_failed` for what has the form of neither: it is not counted as a wrong code.
 */
export function parseCode(typed: string): ParsedCode {
  if (TOTP_CODE.test(typed)) return { kind: "totp", digits: typed };
  const hash = recoveryCodeHash(normalCode(typed));
  if (hash !== undefined) return { kind: "recovery_code", hash };
  const message = "must be six digits or a recovery code";
  throw new DomainError("validation_failed", undefined, {
    fields: [{ field: "code", code: "invalid_format", message }],
  });
}
