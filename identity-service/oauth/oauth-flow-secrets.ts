import { createHash, createHmac, hkdfSync } from "node:crypto";

/** 32 bytes in base64url. */
const HANDLE = /^[A-Za-z0-9_-]{43}$/;

/**
 * The secrets of a flow beside its state, made from it under a key that is not in the database: the row alone, which has
 * the SHA-256 of the state, is enough for nothing.
 */
export interface FlowSecrets {
  /** For the ID token (OpenID Connect Core §3.1.2.1). */
  nonceOf(state: string): string;
  /** For the token endpoint (RFC 7636 §4.1). Never leaves for the browser. */
  verifierOf(state: string): string;
}

/** @param key 32 random bytes, the same in every replica. */
export function createFlowSecrets(key: Buffer): FlowSecrets {
  const own = Buffer.from(hkdfSync("sha256", key, "", "gatehouse oauth flow", 32));
  const derive = (use: string, state: string) =>
    createHmac("sha256", own).update(`${use} ${state}`).digest("base64url");
  return {
    nonceOf: (state) => derive("nonce", state),
    verifierOf: (state) => derive("verifier", state),
  };
}

/** A new opaque handle: 256 bits in base64url. */
export function newHandle(randomBytes: (count: number) => Buffer): string {
  return randomBytes(32).toString("base64url");
}

/** What is stored of a handle. @returns undefined for a text that is none of ours. */
export function handleHash(handle: string): Buffer | undefined {
  return HANDLE.test(handle) ? createHash("sha256").update(handle).digest() : undefined;
}

/** The S256 challenge of a verifier (RFC 7636 §4.2). */
export function challengeOf(verifier: string): string {
  return createHash("sha256").update(verifier).digest("base64url");
}
