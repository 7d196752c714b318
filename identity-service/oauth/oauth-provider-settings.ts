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

/** Who sends the security events of a provider (OpenID Shared Signals Framework 1.0). */
export interface SecurityEventSettings {
  /** `aud` of our stream. */
  audience: string;
  /** Of the events. */
  issuer: string;
  /** Undefined: the keys of the ID tokens. */
  jwks: string | undefined;
  /** What the transmitter sends as `Authorization: Bearer`. */
  token: Secret<string> | undefined;
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
  /** The `prompt` with which it asks users whom it knows, too (OpenID Connect Core §3.1.2.1). Undefined: it always asks. */
  afreshPrompt: "login" | "select_account" | undefined;
  /** The gateway turns a `form_post` into a GET. */
  responseMode: "query" | "form_post";
  claims: ClaimNames;
  /** Apple sometimes sends booleans so. */
  takesBooleanText: boolean;
  network: ReachableNetwork;
  /** Undefined: none are taken. */
  securityEvents?: SecurityEventSettings | undefined;
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
