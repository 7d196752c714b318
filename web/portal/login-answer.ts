import type {
  CompletedLogin,
  MfaEnrollmentRequired,
  MfaRequired,
  PasswordChangeRequired,
} from "#clients/api/generated/gatehouse.ts";

/** What a step of a login answers: docs/http.md, "Steps of a login". */
export type LoginAnswer =
  | Pick<CompletedLogin, "user">
  | MfaRequired
  | PasswordChangeRequired
  | MfaEnrollmentRequired;

export const isComplete = (answer: LoginAnswer): answer is Pick<CompletedLogin, "user"> =>
  !("requireMfa" in answer || "requirePasswordChange" in answer || "requireMfaEnrollment" in answer);
