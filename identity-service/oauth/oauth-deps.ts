import { DomainError } from "#kit/values/errors.ts";
import type { LoginDeps } from "../login/login-deps.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { Account } from "../users/account.ts";
import { needsVerifiedEmail } from "../users/can-log-in.ts";
import type { FlowSecrets } from "./oauth-flow-secrets.ts";
import type { RelyingParty } from "./relying-party.ts";

/** By name, in the order of the configuration. */
export interface RelyingParties {
  get(name: string): RelyingParty | undefined;
  values(): Iterable<RelyingParty>;
}

export interface OAuthDeps extends LoginDeps {
  providerShare: HashShare;
  relyingParties: RelyingParties;
  flowSecrets: FlowSecrets;
  /** Matched exactly. The first is the default. */
  returnTo: readonly string[];
  isPublicOriginSecure: boolean;
}

/** @throws {DomainError} `email_not_verified`. */
export function assertMayLogIn(deps: Pick<OAuthDeps, "loginRequiresVerifiedEmail">, account: Account): void {
  if (needsVerifiedEmail(deps, account)) throw new DomainError("email_not_verified");
}
