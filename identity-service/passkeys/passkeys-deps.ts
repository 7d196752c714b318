import type { Sql } from "#kit/database/postgres.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { MfaDeps } from "../mfa/mfa-deps.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";

/** The relying party (WebAuthn Level 3 §4). */
export interface PasskeyParty {
  /** A host name. */
  id: string;
  /** For people. */
  name: string;
  /** Matched exactly. */
  origins: readonly string[];
}

export interface PasskeyDeps extends MakeLinkDeps, EndSessionsDeps, Pick<MfaDeps, "mfaRequiredRoles"> {
  sql: Sql;
  passkeyParty: PasskeyParty;
  now: () => Date;
  newId: () => string;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
}
