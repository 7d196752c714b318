import type { MfaDeps } from "../mfa/mfa-deps.ts";
import type { PasskeyDeps } from "../passkeys/passkeys-deps.ts";
import type { TokenService } from "../sessions/token-service-client.ts";

export interface StepUpDeps extends MfaDeps, PasskeyDeps {
  tokenService: Pick<TokenService, "raiseSession" | "revokeUserSessions">;
}
