import type { AccessRules } from "#access-file/access-rules.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import type { ProofsOfKeys } from "../edge/proofs-of-keys.ts";
import type { TokenDelivery } from "./oauth-redirect.ts";

/** The verifier refuses ended sessions before the revocation stream does. */
export interface AuthDeps extends Pick<Backends, "identity" | "sessions"> {
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
  access: Pick<AccessRules, "permissionsOf">;
  proofsOfKeys: Pick<ProofsOfKeys, "ofCall" | "useOfCall">;
  /** Applies after a login at an identity provider. */
  tokenDelivery: TokenDelivery;
}
