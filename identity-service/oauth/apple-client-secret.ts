import { createPrivateKey, type KeyObject, sign } from "node:crypto";

const LIFETIME_S = 300;
const AUDIENCE = "https://appleid.apple.com";

export interface AppleClient {
  teamId: string;
  keyId: string;
  clientId: string;
  /** PKCS#8 PEM of a P-256 key: Apple's `.p8` file. */
  privateKey: string;
}

/** Undefined unless it is a private key on P-256. */
export function parseAppleKey(text: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(text);
    return key.asymmetricKeyDetails?.namedCurve === "prime256v1" ? key : undefined;
  } catch {
    return undefined;
  }
}

/** A JWT with ES256 (RFC 7518 §3.4). `nowS` is in seconds since the epoch. */
export function appleClientSecret(
  { teamId, keyId, clientId, privateKey }: AppleClient,
  nowS: number,
): string {
  const key = parseAppleKey(privateKey);
  if (key === undefined) throw new Error("the private key is not a P-256 key");
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { iss: teamId, iat: nowS, exp: nowS + LIFETIME_S, aud: AUDIENCE, sub: clientId };
  const text = `${part({ alg: "ES256", kid: keyId })}.${part(claims)}`;
  const signature = sign("sha256", Buffer.from(text), { key, dsaEncoding: "ieee-p1363" });
  return `${text}.${signature.toString("base64url")}`;
}
