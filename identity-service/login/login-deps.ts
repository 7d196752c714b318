import type { Sql } from "../../service-kit/postgres.ts";
import type { MfaRequirementDeps } from "../mfa/mfa-requirement.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { KnownNetworkDeps } from "../throttle/known-network.ts";

export interface CompleteLoginDeps extends KnownNetworkDeps, MfaRequirementDeps {
  sql: Sql;
  tokenService: TokenService;
  deviceTokens: DeviceTokens;
  now: () => Date;
  newId: () => string;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
  mfaChallengeTtlS: number;
  wakeMailWorker: () => void;
}
