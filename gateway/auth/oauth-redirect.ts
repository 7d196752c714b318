import type { AuditActor } from "#audit-client/stream/audit-entry.ts";
import { type ErrorCode, isErrorCode } from "#kit/values/errors.ts";
import type { CompleteOAuthLoginResponse } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { toCompletedLogin } from "./login-answer.ts";
import { readRequestOptions } from "./passkey-fields.ts";

/** A fragment stays in the browser; a query is sent to servers. */
export const TOKEN_DELIVERIES = ["fragment", "query"] as const;
export type TokenDelivery = (typeof TOKEN_DELIVERIES)[number];

interface OAuthEnd {
  location: string;
  actor: AuditActor | null;
  refused?: ErrorCode;
  /** For the next login on this device. */
  deviceToken?: string;
}

/** Contains no text of the provider. @param completion has a configured `returnTo` without a fragment. */
export function oauthEnd(
  { returnTo, result }: Pick<CompleteOAuthLoginResponse, "returnTo" | "result">,
  delivery: TokenDelivery,
): OAuthEnd {
  const deliver = delivery === "query" ? withQuery : withFragment;
  switch (result?.$case) {
    case "completed": {
      const { tokens, actor, deviceToken } = toCompletedLogin(result.value);
      const { accessToken, refreshToken, expiresInS: expiresIn } = tokens;
      const response = { accessToken, refreshToken, tokenType: "Bearer", expiresIn };
      return { location: deliver(returnTo, response), actor, deviceToken };
    }
    case "mfaChallenge": {
      const { tempToken, userId, passkeyOptionsJson } = result.value;
      const asked = { requireMfa: "true", tempToken, ...passkeyIn(passkeyOptionsJson) };
      return { location: deliver(returnTo, asked), actor: { userId } };
    }
    case "mfaEnrollment": {
      const { tempToken, userId } = result.value;
      return { location: deliver(returnTo, { requireMfaEnrollment: "true", tempToken }), actor: { userId } };
    }
    case "oneTimeCode": {
      const { code, userId } = result.value;
      return { location: withQuery(returnTo, { code }), actor: { userId } };
    }
    case "linked": {
      const { provider, userId } = result.value;
      return { location: withFragment(returnTo, { linked: provider }), actor: { userId } };
    }
    default: {
      // An unknown result is refused too.
      const code = result?.$case === "errorCode" ? result.value : "";
      const refused = isErrorCode(code) ? code : "oauth_failed";
      return { location: withFragment(returnTo, { error: refused }), actor: null, refused };
    }
  }
}

/** Without the credentials' ids: twenty would be too long for a header, and the authenticator has discoverable ones. */
function passkeyIn(optionsJson: string | undefined): { passkey?: string } {
  const options = readRequestOptions(optionsJson);
  return options === undefined ? {} : { passkey: JSON.stringify({ ...options, allowCredentials: [] }) };
}

function withFragment(url: string, parameters: Record<string, string | number>): string {
  return `${url}#${encoded(parameters)}`;
}

function withQuery(url: string, parameters: Record<string, string | number>): string {
  return `${url}${url.includes("?") ? "&" : "?"}${encoded(parameters)}`;
}

function encoded(parameters: Record<string, string | number>): string {
  return new URLSearchParams(
    Object.entries(parameters).map(([key, value]): [string, string] => [key, String(value)]),
  ).toString();
}
