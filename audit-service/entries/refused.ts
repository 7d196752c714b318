import { DomainError } from "#kit/values/errors.ts";

export function refused(field: string, code: string, message: string): DomainError {
  return new DomainError("validation_failed", undefined, { fields: [{ field, code, message }] });
}
