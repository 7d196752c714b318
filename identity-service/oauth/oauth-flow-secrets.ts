import { createHash, createHmac, hkdfSync } from "node:crypto";

/** 32 bytes in base64url. */
const HANDLE = /^[A-Za-z0-9_-]{43}$/;

/** Derived with a key outside the database, so that the stored row alone is useless. */
export interface FlowSecrets {
  /** For the ID token (OpenID Connect Core §3.1.2.1). */
  nonceOf(state: string): string;
  /** PKCE verifier (RFC 7636 §4.1). Never sent to the browser. */
  verifierOf(state: string): string;
}

/** The key has 32 bytes, the same in every replica. */
export function createFlowSecrets(key: Buffer): FlowSecrets {
  const own = Buffer.from(hkdfSync("sha256", key, "", "gatehouse oauth flow", 32));
  const derive = (use: string, state: string) =>
    createHmac("sha256", own).update(`${use} ${state}`).digest("base64url");
  return {
    nonceOf: (state) => derive("nonce", state),
    verifierOf: (state) => derive("verifier", state),
  };
}

export function newHandle(randomBytes: (count: number) => Buffer): string {
  return randomBytes(32).toString("base64url");
}

/** SHA-256. Undefined for an invalid format. */
export function handleHash(handle: string): Buffer | undefined {
  return HANDLE.test(handle) ? createHash("sha256").update(handle).digest() : undefined;
}

/** S256 (RFC 7636 §4.2). */
export function challengeOf(verifier: string): string {
  return createHash("sha256").update(verifier).digest("base64url");
}
