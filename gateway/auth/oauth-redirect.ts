import type { OAuthResult } from "./oauth-client.ts";
import { tokenResponse } from "./token-response.ts";

/** How a browser brings the tokens to the client: in the fragment, which goes to no server, or in the query, which does. */
export const TOKEN_DELIVERIES = ["fragment", "query"] as const;
export type TokenDelivery = (typeof TOKEN_DELIVERIES)[number];

/**
 * Where to send a browser at the end of a flow. Of what the provider wrote nothing is in it.
 *
 * @param returnTo from the list in the configuration; without a fragment.
 */
export function oauthRedirect(returnTo: string, result: OAuthResult, delivery: TokenDelivery): string {
  if ("refused" in result) return withFragment(returnTo, { error: result.refused });
  if ("linked" in result) return withFragment(returnTo, { linked: result.linked.provider });
  if ("code" in result) return withQuery(returnTo, { code: result.code });
  const parameters =
    "pending" in result
      ? { requireMfa: "true", tempToken: result.pending.tempToken }
      : tokenResponse(result.tokens);
  return delivery === "query" ? withQuery(returnTo, parameters) : withFragment(returnTo, parameters);
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
