import { DomainError } from "../../service-kit/errors.ts";

/** A request whose field cannot be. */
export function refused(field: string, code: string, message: string): DomainError {
  return new DomainError("validation_failed", undefined, { fields: [{ field, code, message }] });
}
