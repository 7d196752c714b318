import { DomainError, type ErrorCode } from "../../service-kit/errors.ts";
import type { Metrics } from "../../service-kit/metrics.ts";

/** What a login was waiting for. */
type Step = "password" | "mfa" | "password_change";

/** The refusals that are told apart; every other is `failed`. Bounded, whatever is thrown. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set([
  "invalid_credentials",
  "email_not_verified",
  "mfa_code_invalid",
  "mfa_token_invalid",
  "password_change_token_invalid",
  "too_many_requests",
  "busy",
  "service_unavailable",
]);

/** Counts a step of a login by what came of it. */
export type CountLogin = <T extends object>(step: Step, work: Promise<T>) => Promise<T>;

export function createCountLogin(metrics: Metrics): CountLogin {
  const logins = metrics.counter("gatehouse_logins_total", "Steps of logins, by what came of them.", [
    "step",
    "outcome",
  ]);
  return async (step, work) => {
    try {
      const result = await work;
      logins.inc({ step, outcome: outcomeOf(result) });
      return result;
    } catch (error) {
      const isKnown = error instanceof DomainError && REFUSALS.has(error.code);
      logins.inc({ step, outcome: isKnown ? error.code : "failed" });
      throw error;
    }
  };
}

function outcomeOf(result: object): "completed" | "mfa_required" | "password_change_required" {
  if ("pending" in result) return "mfa_required";
  return "passwordChange" in result ? "password_change_required" : "completed";
}
