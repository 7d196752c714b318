import type { Logger } from "../../service-kit/logger.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { BeginMfaChallengeDeps } from "../login/begin-mfa-challenge.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { HashShare } from "../passwords/hash-share.ts";
import type { BeginSessionDeps } from "../sessions/begin-session.ts";
import type { FlowSecrets } from "./oauth-flow-secrets.ts";
import type { RelyingParty } from "./relying-party.ts";

/** The identity providers, by name, in the order of the configuration. */
export type RelyingParties = ReadonlyMap<string, RelyingParty>;

/** What a login at an identity provider needs. */
export interface OAuthDeps extends BeginMfaChallengeDeps, BeginSessionDeps, MakeLinkDeps {
  sql: Sql;
  /** What one network may ask of providers at once. */
  providerShare: HashShare;
  relyingParties: RelyingParties;
  flowSecrets: FlowSecrets;
  /** Where a browser may be sent afterwards, exactly; the first unless the client says. */
  returnTo: readonly string[];
  /** Whether users reach us over HTTPS. */
  isPublicOriginSecure: boolean;
  /** Whether an address that is not proven keeps its account out. */
  loginRequiresVerifiedEmail: boolean;
  /** Whether who registers is told that the address has an account. */
  registrationDiscloses: boolean;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
  /** Cryptographically random. */
  randomBytes: (count: number) => Buffer;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
  logger: Logger;
}

/** Where a call comes from. Each may be empty. */
export interface CallOrigin {
  clientIp: string;
  userAgent: string;
}
