import type { TokenRules as TokenRulesMessage } from "../proto/gen/gatehouse/token/v1/token_service.ts";
import { type CompactJws, isKeyId, parseCompactJws } from "./compact-jws.ts";

export interface TokenRules {
  /** Value of `iss`, and of `aud` unless a token is for one upstream. */
  issuer: string;
  /** The `alg` by `kid`. */
  keys: ReadonlyMap<string, string>;
}

/** `plausible` proves nothing. */
export type Screening = "plausible" | "invalid" | "expired" | "unknown_key";

export const ACCESS_TOKEN_TYPE = "at+jwt";
export const REFRESH_TOKEN_TYPE = "rt+jwt";
/** Length for both algorithms, in base64url. */
const SIGNATURE_CHARACTERS = 86;
/** Exceeds the leeway of token-service (5 s) plus the uncertainty of its time (3 s). */
const EXPIRED_FOR_CERTAIN_MS = 10_000;

export function toTokenRules({ issuer, keys }: TokenRulesMessage): TokenRules {
  return { issuer, keys: new Map(keys.map(({ keyId, algorithm }) => [keyId, algorithm])) };
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
  if (iss !== rules.issuer || aud !== audience || typeof exp !== "number") return "invalid";
  const algorithm = rules.keys.get(jws.header.kid);
  if (algorithm === undefined) return isAlgorithm(jws) ? "unknown_key" : "invalid";
  if (algorithm !== jws.header.alg) return "invalid";
  const isOver = serverNowMs !== undefined && exp * 1_000 + EXPIRED_FOR_CERTAIN_MS <= serverNowMs;
  return isOver ? "expired" : "plausible";
}

function isAlgorithm({ header }: CompactJws): boolean {
  return header.alg === "EdDSA" || header.alg === "ES256";
}

/** The key is ignored, because sessions outlive signing keys. */
export function isRefreshTokenForm(text: string): boolean {
  const jws = parseCompactJws(text);
  return (
    typeof jws !== "string" &&
    jws.header.typ === REFRESH_TOKEN_TYPE &&
    isKeyId(jws.header.kid) &&
    isAlgorithm(jws) &&
    text.length - text.lastIndexOf(".") - 1 === SIGNATURE_CHARACTERS
  );
}
