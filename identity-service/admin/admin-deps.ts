import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { Throttle } from "../throttle/throttle.ts";
import type { LoginRules } from "../users/can-log-in.ts";
import type { AuthorizeDeps } from "./authorize.ts";

export interface AdminDeps extends EndSessionsDeps, MakeLinkDeps, AuthorizeDeps, LoginRules {
  tokenService: Pick<TokenService, "revokeUserSessions" | "revokeClientTokens">;
  now: () => Date;
  newId: () => string;
  throttle: Pick<Throttle, "clear" | "forget" | "lockedUntil">;
  trustedDeviceDays: number;
  wakeMailWorker: () => void;
}
