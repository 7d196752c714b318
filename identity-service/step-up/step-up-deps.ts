import type { MfaDeps } from "../mfa/mfa-deps.ts";
import type { PasskeyDeps } from "../passkeys/passkeys-deps.ts";
import type { ReauthenticateDeps } from "../passwords/reauthenticate.ts";
import type { TokenService } from "../sessions/token-service-client.ts";

export interface StepUpDeps extends MfaDeps, ReauthenticateDeps, PasskeyDeps {
  sql: MfaDeps["sql"];
  now: () => Date;
  newId: () => string;
  tokenService: Pick<TokenService, "raiseSession">;
  /** Cryptographically secure. */
  randomBytes: (count: number) => Buffer;
}
