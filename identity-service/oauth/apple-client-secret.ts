import { createPrivateKey, type KeyObject, sign } from "node:crypto";

const LIFETIME_S = 300;
const AUDIENCE = "https://appleid.apple.com";

/** What Apple gives a developer: a team, a key of it, and the service's own id. */
export interface AppleClient {
  teamId: string;
  keyId: string;
  clientId: string;
  /** PKCS#8 PEM of a P-256 key, as Apple's `.p8` file has it. */
  privateKey: string;
}

/** @returns undefined unless the text is a private key on P-256. */
export function parseAppleKey(text: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(text);
    return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? key : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The client secret of Sign in with Apple: a JWT signed with ES256, good for five minutes.
 *
 * @param nowS seconds since the epoch.
 * @see RFC 7518 §3.4 for the form of the signature; Apple, "Creating a client secret".
 */
export function appleClientSecret(
  { teamId, keyId, clientId, privateKey }: AppleClient,
  nowS: number,
): string {
  const key = parseAppleKey(privateKey);
  if (key === undefined) throw new Error("the key was checked when it was read");
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { iss: teamId, iat: nowS, exp: nowS + LIFETIME_S, aud: AUDIENCE, sub: clientId };
  const text = `${part({ alg: "ES256", kid: keyId })}.${part(claims)}`;
  const signature = sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}
