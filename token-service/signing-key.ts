import { createHash } from "node:crypto";
import {
  type CryptoKey,
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
} from "jose";

export type Algorithm = "EdDSA" | "ES256";
export type KeyState = "next" | "active" | "retired" | "revoked";

/** A key as the process uses it. */
export interface SigningKey {
  /** `kid`: the JWK thumbprint (RFC 7638). */
  id: string;
  algorithm: Algorithm;
  state: KeyState;
  publicJwk: JWK;
  publicKey: CryptoKey;
  /** Absent for keys that no longer sign. */
  privateKey?: CryptoKey;
  createdAt: Date;
  activatedAt: Date | null;
  retiredAt: Date | null;
}

const CURVE: Record<Algorithm, { kty: string; crv: string }> = {
  EdDSA: { kty: "OKP", crv: "Ed25519" },
  ES256: { kty: "EC", crv: "P-256" },
};

/** Makes a key pair. @returns the public JWK with `kid`, `use` and `alg`, and the private JWK. */
export async function generateSigningKey(
  algorithm: Algorithm,
): Promise<{ id: string; publicJwk: JWK; privateJwk: JWK }> {
  const pair = await generateKeyPair(algorithm, { extractable: true, crv: CURVE[algorithm].crv });
  const privateJwk = await exportJWK(pair.privateKey);
  const { d: _secret, ...members } = privateJwk;
  const id = await calculateJwkThumbprint(members as JWK);
  return { id, publicJwk: { ...members, kid: id, use: "sig", alg: algorithm }, privateJwk };
}

/**
 * Imports a public JWK, pinned to its algorithm: key type and curve must be the algorithm's own.
 *
 * @throws if they are not, or if the JWK holds a secret.
 */
export async function importPublicKey(jwk: JWK, algorithm: Algorithm): Promise<CryptoKey> {
  const { kty, crv } = CURVE[algorithm];
  if (jwk.kty !== kty || jwk.crv !== crv || "d" in jwk)
    throw new Error(`key ${jwk.kid} is no public ${algorithm} key`);
  return (await importJWK(jwk, algorithm)) as CryptoKey;
}

export async function importPrivateKey(jwk: JWK, algorithm: Algorithm): Promise<CryptoKey> {
  return (await importJWK(jwk, algorithm, { extractable: false })) as CryptoKey;
}

/** A log-safe name for a token's identifiers: the first 12 hexadecimal digits of their SHA-256. */
export function logName(identifier: string): string {
  return createHash("sha256").update(identifier).digest("hex").slice(0, 12);
}
