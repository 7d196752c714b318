import type { Sql } from "../../service-kit/postgres.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { DeviceTokens } from "../throttle/device-token.ts";
import type { KnownNetworkDeps } from "../throttle/known-network.ts";

/** What the end of a login needs, whatever has proven the user. */
export interface CompleteLoginDeps extends KnownNetworkDeps {
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
