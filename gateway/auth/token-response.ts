import type { TokenPair } from "./identity-client.ts";

/** The tokens of a session as clients get them (RFC 6749 §5.1, in camelCase). */
export function tokenResponse({ accessToken, refreshToken, expiresInS }: TokenPair) {
  return { accessToken, refreshToken, tokenType: "Bearer", expiresIn: expiresInS };
}
