import type { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";

/** @throws {DomainError} `validation_failed`. */
export function decode<S extends z.ZodType>(schema: S, request: unknown): z.output<S> {
  const result = schema.safeParse(request);
  if (result.success) return result.data;
  throw new DomainError("validation_failed", undefined, {
    fields: result.error.issues.map(({ path, code, message }) => ({ field: path.join("."), code, message })),
  });
}
