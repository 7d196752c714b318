import { createPublicKey, type KeyObject } from "node:crypto";
import type { TokenRules as TokenRulesMessage } from "#proto/gatehouse/token/v1/token_service.ts";
import { isAlgorithm, isKeyId, isSignedBy, parseCompactJws } from "./compact-jws.ts";

interface VerificationKey {
  algorithm: string;
  /** Undefined if it was not sent, or is of a kind that this version does not know. */
  publicKey: KeyObject | undefined;
}

export interface TokenRules {
  /** Value of `iss`, and of `aud` unless a token is for one upstream. */
  issuer: string;
  /** Keyed by `kid`. */
  keys: ReadonlyMap<string, VerificationKey>;
}

/** `plausible` proves nothing. */
export type Screening = "plausible" | "invalid" | "other_audience" | "expired" | "unknown_key";

export const ACCESS_TOKEN_TYPE = "at+jwt";
export const REFRESH_TOKEN_TYPE = "rt+jwt";
/** Length for both algorithms, in base64url. */
const SIGNATURE_CHARACTERS = 86;
/** HS256, in base64url. */
const MAC_CHARACTERS = 43;
/** Exceeds the leeway of token-service (5 s) plus the uncertainty of its time (3 s). */
const EXPIRED_FOR_CERTAIN_MS = 10_000;

export function toTokenRules({ issuer, keys }: TokenRulesMessage): TokenRules {
  return {
    issuer,
    keys: new Map(
      keys.map(({ keyId, algorithm, publicKey }) => [keyId, { algorithm, publicKey: importKey(publicKey) }]),
    ),
  };
}

/** What cannot be read is not used: then token-service is asked. */
function importKey(der: Uint8Array): KeyObject | undefined {
  if (der.length === 0) return undefined;
  try {
    return createPublicKey({ key: Buffer.from(der), format: "der", type: "spki" });
  } catch {
    return undefined;
  }
}

/** Finds tokens that token-service would refuse whatever their signature. */
export function screenToken(
  text: string,
  rules: TokenRules,
  serverNowMs: number | undefined,
  audience: string = rules.issuer,
): Screening {
  const jws = parseCompactJws(text);
  if (typeof jws === "string" || jws.header.typ !== ACCESS_TOKEN_TYPE || !isKeyId(jws.header.kid))
    return "invalid";
  if (text.length - text.lastIndexOf(".") - 1 !== SIGNATURE_CHARACTERS) return "invalid";
  const { iss, aud, exp } = jws.payload;
  if (iss !== rules.issuer || typeof exp !== "number") return "invalid";
  const key = rules.keys.get(jws.header.kid);
  if (key === undefined ? !isAlgorithm(jws.header.alg) : key.algorithm !== jws.header.alg) return "invalid";
  if (aud !== audience) return "other_audience";
  // Before the key: a key leaves when its last token has ended.
  if (serverNowMs !== undefined && exp * 1_000 + EXPIRED_FOR_CERTAIN_MS <= serverNowMs) return "expired";
  return key === undefined ? "unknown_key" : "plausible";
}

/**
 * Whether a plausible token is not signed by the key that it names. False while that key is not sent: only token-service
 * accepts a token.
 */
export function isForged(text: string, { keys }: TokenRules): boolean {
  const jws = parseCompactJws(text);
  const key = typeof jws === "string" ? undefined : keys.get(jws.header.kid);
  if (key?.publicKey === undefined || !isAlgorithm(key.algorithm)) return false;
  try {
    return !isSignedBy(text, { algorithm: key.algorithm, publicKey: key.publicKey });
  } catch {
    return false; // A key of another kind than its algorithm's.
  }
}

/** The key is ignored, because sessions outlive signing keys. */
export function isRefreshTokenForm(text: string): boolean {
  const jws = parseCompactJws(text);
  return (
    typeof jws !== "string" &&
    jws.header.typ === REFRESH_TOKEN_TYPE &&
    isKeyId(jws.header.kid) &&
    (isAlgorithm(jws.header.alg) || jws.header.alg === "HS256") &&
    text.length - text.lastIndexOf(".") - 1 ===
      (jws.header.alg === "HS256" ? MAC_CHARACTERS : SIGNATURE_CHARACTERS)
  );
}
