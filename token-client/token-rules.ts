import type { TokenRules as TokenRulesMessage } from "../proto/gen/gatehouse/token/v1/token_service.ts";
import { type CompactJws, isKeyId, parseCompactJws } from "./compact-jws.ts";

/** What every access token of this installation looks like, as token-service tells it. */
export interface TokenRules {
  /** `iss`, and `aud`. */
  issuer: string;
  /** `alg` by `kid`: the keys whose tokens may be accepted. */
  keys: ReadonlyMap<string, string>;
}

/** What can be said of a text without asking: `plausible` proves nothing. */
export type Screening = "plausible" | "invalid" | "expired" | "unknown_key";

export const ACCESS_TOKEN_TYPE = "at+jwt";
export const REFRESH_TOKEN_TYPE = "rt+jwt";
/** Of both algorithms, in base64url. */
const SIGNATURE_CHARACTERS = 86;
/** token-service allows 5 s after `exp`; its time is known here to 3 s. */
const EXPIRED_FOR_CERTAIN_MS = 10_000;

export function toTokenRules({ issuer, keys }: TokenRulesMessage): TokenRules {
  return { issuer, keys: new Map(keys.map(({ keyId, algorithm }) => [keyId, algorithm])) };
}

/**
 * Tells texts that token-service would refuse whatever their signature is, so that refusing them costs no call.
 *
 * @param serverNowMs token-service's time, milliseconds since the epoch; undefined if it is not known.
 */
export function screenToken(text: string, rules: TokenRules, serverNowMs: number | undefined): Screening {
  const jws = parseCompactJws(text);
  if (typeof jws === "string" || jws.header.typ !== ACCESS_TOKEN_TYPE || !isKeyId(jws.header.kid))
    return "invalid";
  if (text.length - text.lastIndexOf(".") - 1 !== SIGNATURE_CHARACTERS) return "invalid";
  const { iss, aud, exp } = jws.payload;
  if (iss !== rules.issuer || aud !== rules.issuer || typeof exp !== "number") return "invalid";
  const algorithm = rules.keys.get(jws.header.kid);
  if (algorithm === undefined) return isAlgorithm(jws) ? "unknown_key" : "invalid";
  if (algorithm !== jws.header.alg) return "invalid";
  const isOver = serverNowMs !== undefined && exp * 1_000 + EXPIRED_FOR_CERTAIN_MS <= serverNowMs;
  return isOver ? "expired" : "plausible";
}

function isAlgorithm({ header }: CompactJws): boolean {
  return header.alg === "EdDSA" || header.alg === "ES256";
}

/**
 * Whether a text can be a refresh token, by its form alone. Its key is not looked at: sessions outlive the keys that signed
 * their tokens. What is refused here costs no call.
 */
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
