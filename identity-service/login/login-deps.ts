import type { AccessRules } from "../../access-file/access-rules.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { PasskeyDeps } from "../passkeys/passkeys-deps.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { TrustDeps } from "./trust-device.ts";

export interface CompleteLoginDeps extends TrustDeps, PasskeyDeps {
  sql: Sql;
  access: AccessRules;
  tokenService: TokenService;
  deviceTokens: DeviceTokens;
  now: () => Date;
  newId: () => string;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  mfaChallengeTtlS: number;
  wakeMailWorker: () => void;
}
