import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { calculateJwkThumbprint, type JWK } from "jose";
import type { Algorithm } from "#token-client/compact-jws.ts";

export type KeyState = "next" | "active" | "retired" | "revoked";

export interface SigningKey {
  /** `kid`: the JWK thumbprint (RFC 7638). */
  id: string;
  algorithm: Algorithm;
  state: KeyState;
  publicJwk: JWK;
  publicKey: KeyObject;
  privateKey?: KeyObject;
  /** Authenticates refresh tokens. Stays as long as the public key. */
  refreshSecret: KeyObject;
  createdAt: Date;
  activatedAt: Date | null;
  retiredAt: Date | null;
}

const CURVE: Record<Algorithm, { kty: string; crv: string }> = {
  EdDSA: { kty: "OKP", crv: "Ed25519" },
  ES256: { kty: "EC", crv: "P-256" },
};

/** `publicJwk` has `kid`, `use` and `alg`. */
export async function generateSigningKey(
  algorithm: Algorithm,
): Promise<{ id: string; publicJwk: JWK; privateJwk: JWK }> {
  const { publicKey, privateKey } =
    algorithm === "EdDSA"
      ? generateKeyPairSync("ed25519")
      : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const members = publicKey.export({ format: "jwk" }) as JWK;
  const id = await calculateJwkThumbprint(members);
  const publicJwk = { ...members, kid: id, use: "sig", alg: algorithm };
  return { id, publicJwk, privateJwk: privateKey.export({ format: "jwk" }) as JWK };
}

/** @throws for another key type or curve, an invalid point, or a private key. */
export function importPublicKey(jwk: JWK, algorithm: Algorithm): KeyObject {
  const { kty, crv } = CURVE[algorithm];
  if (jwk.kty !== kty || jwk.crv !== crv || "d" in jwk)
    throw new Error(`key ${jwk.kid} is not a public ${algorithm} key`);
  return createPublicKey({ key: jwk as never, format: "jwk" });
}

export function importPrivateKey(jwk: JWK): KeyObject {
  return createPrivateKey({ key: jwk as never, format: "jwk" });
}

/** What the encrypted secret is for: it does not open as a private key, nor as the secret of another key. */
export function refreshSecretContext(keyId: string): string {
  return `refresh secret ${keyId}`;
}

/** For logs: 12 hexadecimal digits of the SHA-256. */
export function logName(identifier: string): string {
  return createHash("sha256").update(identifier).digest("hex").slice(0, 12);
}
