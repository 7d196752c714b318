import type { AccessRules } from "#access-file/access-rules.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MfaDeps } from "../mfa/check-mfa-code.ts";
import type { PasskeyDeps } from "../passkeys/passkey-ceremony.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { PasswordHasher } from "../passwords/password-hasher.ts";
import type { PasswordPolicy } from "../passwords/password-policy.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { ThrottleDeps } from "../throttle/known-caller.ts";
import type { Throttle } from "../throttle/throttle.ts";
import type { CountLogin } from "./count-logins.ts";

export interface FailedLogin extends LoginRefusal, ClientOrigin {
  userId: string | undefined;
}

export interface LoginRefusal {
  /** For the audit log only. */
  reason: "unknown_account" | "account_disabled" | "wrong_password" | "email_not_verified" | "locked";
  code: "invalid_credentials" | "email_not_verified";
}

export interface LoginDeps extends MfaDeps, PasskeyDeps, ThrottleDeps {
  access: AccessRules;
  tokenService: TokenService;
  passwords: PasswordHasher;
  passwordPolicy: PasswordPolicy;
  throttle: Throttle;
  hashShare: HashShare;
  deviceTokens: DeviceTokens;
  loginRequiresVerifiedEmail: boolean;
  registrationDiscloses: boolean;
  mfaChallengeTtlS: number;
  /** 0: no device is trusted. */
  trustedDeviceDays: number;
  countLogin: CountLogin;
  /** Also called for unknown accounts. Never waits or throws. */
  notifyOwnerOfGuesses: (account: string) => void;
  /** Does equal work for each reason. Never waits or throws. */
  noteFailedLogin: (failed: FailedLogin, context: CallContext) => void;
}
