import { DomainError } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { CountLogin } from "../login/count-logins.ts";
import type { CompleteLoginDeps } from "../login/login-deps.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { ReauthenticateDeps } from "../passwords/reauthenticate.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { SpendCallDeps } from "../throttle/spend-call.ts";
import type { Account } from "../users/account.ts";
import type { FlowSecrets } from "./oauth-flow-secrets.ts";
import type { RelyingParty } from "./relying-party.ts";

/** By name, in the order of the configuration. */
export type RelyingParties = ReadonlyMap<string, RelyingParty>;

export interface OAuthDeps
  extends CompleteLoginDeps,
    MakeLinkDeps,
    EndSessionsDeps,
    SpendCallDeps,
    ReauthenticateDeps {
  tokenService: TokenService;
  deviceTokens: CompleteLoginDeps["deviceTokens"];
  throttle: ReauthenticateDeps["throttle"] & SpendCallDeps["throttle"];
  countLogin: CountLogin;
  sql: Sql;
  providerShare: HashShare;
  relyingParties: RelyingParties;
  flowSecrets: FlowSecrets;
  /** Matched exactly. The first is the default. */
  returnTo: readonly string[];
  isPublicOriginSecure: boolean;
  loginRequiresVerifiedEmail: boolean;
  registrationDiscloses: boolean;
  now: () => Date;
  newId: () => string;
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
  logger: Logger;
}

/** @throws {DomainError} `email_not_verified`. */
export function assertMayLogIn(
  deps: Pick<OAuthDeps, "loginRequiresVerifiedEmail">,
  { emailVerified }: Account,
): void {
  if (deps.loginRequiresVerifiedEmail && !emailVerified) throw new DomainError("email_not_verified");
}
