import type { TokenVerifier } from "../../token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import type { TokenDelivery } from "./oauth-redirect.ts";

/** The verifier refuses sessions at once that a call has ended. */
export interface AuthDeps extends Pick<Backends, "identity" | "sessions"> {
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
  /** How a login at an identity provider delivers its tokens. */
  tokenDelivery: TokenDelivery;
}
