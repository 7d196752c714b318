import { DomainError } from "#kit/values/errors.ts";
import { normalCode, recoveryCodeHash } from "./recovery-code.ts";

export type ParsedCode = { kind: "totp"; digits: string } | { kind: "recovery_code"; hash: Buffer };

const TOTP_CODE = /^[0-9]{6}$/;

/** Recovery codes may have spaces, dashes and lower case. @throws {DomainError} `validation_failed`. */
export function parseCode(typed: string): ParsedCode {
  if (TOTP_CODE.test(typed)) return { kind: "totp", digits: typed };
  const hash = recoveryCodeHash(normalCode(typed));
  if (hash !== undefined) return { kind: "recovery_code", hash };
  const message = "must be six digits or a recovery code";
  throw new DomainError("validation_failed", undefined, {
    fields: [{ field: "code", code: "invalid_format", message }],
  });
}
