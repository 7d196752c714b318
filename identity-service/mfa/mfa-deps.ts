import type { Sql } from "../../service-kit/postgres.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { ReauthenticateDeps } from "../passwords/reauthenticate.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { MfaRequirementDeps } from "./mfa-requirement.ts";
import type { MfaKeys } from "./totp-secret.ts";

export interface MfaDeps extends MfaRequirementDeps {
  sql: Sql;
  mfaKeys: MfaKeys;
  deviceTokens: Pick<DeviceTokens, "read">;
  now: () => Date;
  newId: () => string;
  wakeMailWorker: () => void;
}

export interface TypedCode extends ClientOrigin {
  code: string;
}

export interface MfaChangeDeps extends MfaDeps, ReauthenticateDeps, EndSessionsDeps, MakeLinkDeps {
  sql: Sql;
  now: () => Date;
  newId: () => string;
  mfaIssuer: string;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
}
