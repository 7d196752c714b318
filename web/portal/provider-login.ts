import { type Way, wayOf } from "./next-page.ts";

/** Of the login that is under way in this tab; good for nothing without the code that the provider's return brings. */
const VERIFIER = "gatehouse.code-verifier";
const WAY = "gatehouse.way-on";
export const RETURN_PATH = "/account/returned";

/**
 * Sends the browser to a provider, with PKCE: the answer is a one-time code and no token (RFC 7636). Afresh, the provider
 * asks whom it knows as well.
 */
export async function beginProviderLogin(
  provider: string,
  { way, isAfresh }: { way: Way; isAfresh: boolean },
): Promise<void> {
  const verifier = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  sessionStorage.setItem(VERIFIER, verifier);
  sessionStorage.setItem(WAY, JSON.stringify(way));
  const query = new URLSearchParams({
    returnTo: `${location.origin}${RETURN_PATH}`,
    codeChallenge: base64url(new Uint8Array(digest)),
    ...(isAfresh && { prompt: "login" }),
  });
  location.assign(`/auth/${encodeURIComponent(provider)}?${query}`);
}

/** What the address says after the return; the address bar and the history forget it. */
export function takeReturn(): { code?: string; codeVerifier?: string; linked?: string; error?: string } {
  const query = new URLSearchParams(location.search);
  const fragment = new URLSearchParams(location.hash.slice(1));
  const codeVerifier = sessionStorage.getItem(VERIFIER);
  sessionStorage.removeItem(VERIFIER);
  history.replaceState(history.state, "", location.pathname);
  const found = {
    code: query.get("code"),
    codeVerifier,
    linked: fragment.get("linked"),
    error: fragment.get("error"),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null));
}

/** What the address said before the browser left. */
export function takeWay(): Way {
  const stored = sessionStorage.getItem(WAY) ?? "{}";
  sessionStorage.removeItem(WAY);
  return wayOf(JSON.parse(stored));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}
