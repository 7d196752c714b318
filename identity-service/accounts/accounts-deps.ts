import type { AccessRules } from "#access-file/access-rules.ts";
import type { AfterAnswer } from "../mail/after-answer.ts";
import type { MailBudgetDeps } from "../mail/mail-budget.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { HashNewPasswordDeps } from "../passwords/hash-new-password.ts";
import type { PasswordPolicy } from "../passwords/password-policy.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { Throttle } from "../throttle/throttle.ts";
import type { ThrottleDeps } from "../throttle/throttle-deps.ts";

export interface AccountsDeps
  extends MakeLinkDeps,
    MailBudgetDeps,
    ThrottleDeps,
    EndSessionsDeps,
    HashNewPasswordDeps {
  tokenService: Pick<TokenService, "revokeUserSessions" | "isSessionLive">;
  throttle: Throttle;
  passwordPolicy: PasswordPolicy;
  registrationDiscloses: boolean;
  smtpUtf8: boolean;
  access: Pick<AccessRules, "defaultRole">;
  /** 0: unused accounts are kept. */
  unusedAccountDays: number;
  afterAnswer: AfterAnswer;
  wakeMailWorker: () => void;
}
