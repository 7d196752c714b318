import { createHash, randomUUID } from "node:crypto";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";

/** Of `gateway/testing`. */
const TEST_ORIGIN = "http://gateway.test";

export interface ProofParts {
  method?: string;
  /** A path is one of the gateway that tests make. */
  url?: string;
  /** For the claim `ath`. */
  token?: string;
  nonce?: string;
  /** In place of, or beside, what a right proof has. Undefined leaves a member out. */
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
}

/** A key of a client, and proofs that jose makes with it: nothing here is the gateway's own code. */
export async function dpopClient(alg: "ES256" | "EdDSA" | "Ed25519" | "RS256" = "ES256") {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk: JWK = await exportJWK(publicKey);
  const proof = async ({ method = "POST", url = "/", token, nonce, header, claims }: ProofParts = {}) => {
    const payload = {
      jti: randomUUID(),
      htm: method,
      htu: url.startsWith("/") ? `${TEST_ORIGIN}${url}` : url,
      iat: Math.floor(Date.now() / 1_000),
      ...(token !== undefined && { ath: createHash("sha256").update(token).digest("base64url") }),
      ...(nonce !== undefined && { nonce }),
      ...claims,
    };
    return new SignJWT(payload).setProtectedHeader({ typ: "dpop+jwt", alg, jwk, ...header }).sign(privateKey);
  };
  return { jkt: await calculateJwkThumbprint(jwk), jwk, privateKey, proof };
}

export type DpopClient = Awaited<ReturnType<typeof dpopClient>>;
