import type { Secret } from "../../service-kit/config.ts";
import type { ReachableNetwork } from "./outbound-http.ts";

/** How a client proves itself at the token endpoint. */
export type ClientAuthentication =
  | { kind: "client_secret_basic" | "client_secret_post"; secret: Secret<string> }
  /** Apple's: a JWT that is signed for each call. */
  | { kind: "apple"; teamId: string; keyId: string; privateKey: Secret<string> }
  /** A public client: PKCE alone. */
  | { kind: "none" };

/** Endpoints of a provider that has no discovery document. */
export interface ProviderEndpoints {
  authorization: string;
  token: string;
  /** Required for OpenID Connect. */
  jwks?: string | undefined;
  userinfo?: string | undefined;
}

/** Where in the provider's claims a value is. */
export interface ClaimNames {
  email: string;
  emailVerified: string;
  firstName: string;
  lastName: string;
}

/** An identity provider as it is configured. */
export interface ProviderSettings {
  name: string;
  displayName: string;
  /** OpenID Connect, or GitHub's OAuth 2.0 with its API. */
  protocol: "oidc" | "github";
  /** First part of the key of an account there. Exactly as the provider writes it. */
  issuer: string;
  /** Undefined: discovered. */
  endpoints: ProviderEndpoints | undefined;
  clientId: string;
  clientAuthentication: ClientAuthentication;
  scopes: readonly string[];
  /** `form_post`: the answer comes as a POST, which the gateway turns into a GET. */
  responseMode: "query" | "form_post";
  claims: ClaimNames;
  /** Apple writes its booleans as text at times. */
  takesBooleanText: boolean;
  network: ReachableNetwork;
}
