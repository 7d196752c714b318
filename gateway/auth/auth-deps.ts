import type { TokenVerifier } from "../../token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import type { TokenDelivery } from "./oauth-redirect.ts";

/** What the routes of accounts and logins need. The sessions that a call ends are refused by the verifier at once. */
export interface AuthDeps extends Pick<Backends, "identity" | "sessions"> {
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
  /** How tokens come back from a login at an identity provider. */
  tokenDelivery: TokenDelivery;
}
