import type { Logger } from "../../service-kit/logger.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { BeginMfaChallengeDeps } from "../login/begin-mfa-challenge.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { BeginSessionDeps } from "../sessions/begin-session.ts";
import type { FlowSecrets } from "./oauth-flow-secrets.ts";
import type { RelyingParty } from "./relying-party.ts";

/** By name, in the order of the configuration. */
export type RelyingParties = ReadonlyMap<string, RelyingParty>;

export interface OAuthDeps extends BeginMfaChallengeDeps, BeginSessionDeps, MakeLinkDeps {
  sql: Sql;
  /** Limits concurrent provider requests per network. */
  providerShare: HashShare;
  relyingParties: RelyingParties;
  flowSecrets: FlowSecrets;
  /** Allowed redirect targets, matched exactly. The first is the default. */
  returnTo: readonly string[];
  /** Whether the public origin uses HTTPS. */
  isPublicOriginSecure: boolean;
  loginRequiresVerifiedEmail: boolean;
  registrationDiscloses: boolean;
  now: () => Date;
  /** UUIDv7. */
  newId: () => string;
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
  logger: Logger;
}

/** Both may be empty. */
export interface CallOrigin {
  clientIp: string;
  userAgent: string;
}
