import type { DomainError } from "#kit/values/errors.ts";
import { publicMessage } from "./envelope.ts";

/** RFC 8935 §2.4. */
export const REFUSALS = [
  "invalid_request",
  "invalid_key",
  "invalid_issuer",
  "invalid_audience",
  "authentication_failed",
] as const;

/** RFC 8935 §2.3, which knows the status 400 alone. */
export function securityEventFailure(error: DomainError): { err: string; description: string } {
  const [problem] = error.code === "validation_failed" ? error.fields : [];
  return {
    err: REFUSALS.find((known) => known === problem?.code) ?? "invalid_request",
    description: problem?.message ?? publicMessage(error),
  };
}
