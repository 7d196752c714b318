import type { Sql } from "#kit/database/postgres.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { ReauthenticateDeps } from "../passwords/reauthenticate.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { Role } from "../users/account.ts";
import type { MfaKeys } from "./totp-secret.ts";

export interface TypedCode extends ClientOrigin {
  code: string;
}

export interface MfaDeps extends ReauthenticateDeps, EndSessionsDeps, MakeLinkDeps {
  sql: Sql;
  mfaKeys: MfaKeys;
  mfaIssuer: string;
  /** Users of these roles cannot log in without a second factor. */
  mfaRequiredRoles: ReadonlySet<Role>;
  deviceTokens: Pick<DeviceTokens, "read">;
  now: () => Date;
  newId: () => string;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  wakeMailWorker: () => void;
}
