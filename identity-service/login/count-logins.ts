import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { LoginResult } from "./login-result.ts";

/** `code`: the one-time code of a login at a provider. */
type Step = "password" | "mfa" | "mfa_enrollment" | "password_change" | "provider" | "code" | "passkey";

type Outcome = LoginResult | { kind: "oneTimeCode" };

/** Others count as `failed`, which bounds the cardinality. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "invalid_credentials",
  "email_not_verified",
  "mfa_code_invalid",
  "mfa_token_invalid",
  "password_change_token_invalid",
  "oauth_failed",
  "oauth_denied",
  "oauth_code_invalid",
  "passkey_invalid",
  "link_required",
  "too_many_requests",
  "busy",
  "service_unavailable",
]);

export type CountLogin = <T extends Outcome>(step: Step, work: Promise<T>) => Promise<T>;

export function createCountLogin(metrics: Metrics): CountLogin {
  const logins = metrics.counter("gatehouse_logins_total", "Login steps by outcome.", ["step", "outcome"]);
  return async (step, work) => {
    try {
      const result = await work;
      logins.inc({ step, outcome: OUTCOMES[result.kind] });
      return result;
    } catch (error) {
      const isKnown = error instanceof DomainError && REFUSALS.has(error.code);
      logins.inc({ step, outcome: isKnown ? error.code : "failed" });
      throw error;
    }
  };
}

const OUTCOMES: Readonly<Record<Outcome["kind"], string>> = {
  completed: "completed",
  mfaChallenge: "mfa_required",
  passwordChange: "password_change_required",
  mfaEnrollment: "mfa_enrollment_required",
  oneTimeCode: "code_issued",
};
