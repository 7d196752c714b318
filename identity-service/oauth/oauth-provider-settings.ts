import type { Secret } from "#kit/config/config.ts";
import type { ReachableNetwork } from "#outbound-http/outbound-http.ts";

export type ClientAuthentication =
  | { kind: "client_secret_basic" | "client_secret_post"; secret: Secret<string> }
  /** Apple: a signed JWT per call. */
  | { kind: "apple"; teamId: string; keyId: string; privateKey: Secret<string> }
  /** PKCE only. */
  | { kind: "none" };

/** For providers without a discovery document. */
interface ProviderEndpoints {
  authorization: string;
  token: string;
  /** Required for OpenID Connect. */
  jwks?: string | undefined;
  userinfo?: string | undefined;
}

export interface ClaimNames {
  email: string;
  emailVerified: string;
  firstName: string;
  lastName: string;
}

export interface ProviderSettings {
  name: string;
  displayName: string;
  /** `github` is OAuth 2.0 with GitHub's API. */
  protocol: "oidc" | "github";
  /** As the provider writes it. */
  issuer: string;
  /** Undefined: from discovery. */
  endpoints: ProviderEndpoints | undefined;
  clientId: string;
  clientAuthentication: ClientAuthentication;
  scopes: readonly string[];
  /** The gateway turns a `form_post` into a GET. */
  responseMode: "query" | "form_post";
  claims: ClaimNames;
  /** Apple sometimes sends booleans so. */
  takesBooleanText: boolean;
  network: ReachableNetwork;
}

/** Checked by `tests/house/provider-names.test.ts`. */
export const RESERVED_PROVIDER_NAMES: ReadonlySet<string> = new Set([
  "approvals",
  "change-email",
  "change-password",
  "confirm-email-change",
  "device-session",
  "disown-account",
  "forgot-password",
  "links",
  "login",
  "logout",
  "me",
  "mfa",
  "oauth",
  "passkeys",
  "providers",
  "refresh",
  "register",
  "resend-verification",
  "reset-password",
  "return-to",
  "sessions",
  "step-up",
  "trusted-devices",
  "undo-access-change",
  "undo-email-change",
  "verify-email",
]);
