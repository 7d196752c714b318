import type { LRUCache } from "lru-cache";
import { type CompactJws, isKeyId, parseCompactJws } from "../token-client/compact-jws.ts";
import { ACCESS_TOKEN_TYPE } from "../token-client/token-rules.ts";
import { type AccessClaims, checkAccessClaims, generationOf } from "./access-token.ts";
import { isSignedBy } from "./jws-signature.ts";
import type { KeyRing } from "./key-ring.ts";
import type { LeafMarker } from "./leaf-marker.ts";
import type { RevocationFeed } from "./revocation-feed.ts";
import { logName, type SigningKey } from "./signing-key.ts";
import { CLOCK_SKEW_S, type TokenLifetimes } from "./token-lifetimes.ts";

/** For logs and metrics, not for the caller. */
export type Refusal =
  | "length"
  | "form"
  | "header"
  | "alg"
  | "typ"
  | "kid"
  | "signature"
  | "claims"
  | "iss"
  | "aud"
  | "lifetime"
  | "iat"
  | "nbf"
  | "exp"
  | "revoked";

export interface VerifiedToken {
  claims: AccessClaims;
  keyId: string;
}

export type Verdict = { active: true; token: VerifiedToken } | { active: false; refusal: Refusal };

export interface VerifyTokenDeps {
  issuer: string;
  lifetimes: TokenLifetimes;
  keys: Pick<KeyRing, "find" | "findAgain">;
  revocations: Pick<RevocationFeed, "isSessionRevoked" | "isKeyRevoked" | "assertFresh">;
  leaves: Pick<LeafMarker, "saw">;
  /** Keyed by the exact text. */
  verified: LRUCache<string, VerifiedToken>;
  now: () => Date;
  assertClock: () => void;
  countRefusal: (refusal: Refusal) => void;
  logRefusal: (facts: { refusal: Refusal; session: string | undefined }) => void;
}

/** @throws {DomainError} `service_unavailable` while revocations are uncertain or the clock is wrong. */
export async function verifyToken(deps: VerifyTokenDeps, text: string): Promise<Verdict> {
  deps.revocations.assertFresh();
  deps.assertClock();
  const known = deps.verified.get(text);
  const result = known ?? (await verifyAnew(deps, text));
  if (typeof result === "string") return refuse(deps, result);
  const refusal = refusalNow(deps, result);
  if (refusal !== undefined) {
    deps.verified.delete(text);
    return refuse(deps, refusal, result);
  }
  if (known === undefined) {
    deps.verified.set(text, result);
    deps.leaves.saw({ sessionId: result.claims.sid, generation: generationOf(result.claims) });
  }
  return { active: true, token: result };
}

function refusalNow(deps: VerifyTokenDeps, { claims, keyId }: VerifiedToken): Refusal | undefined {
  if (deps.now().getTime() >= refusedAtMs({ claims })) return "exp";
  if (deps.revocations.isSessionRevoked(claims.sid) || deps.revocations.isKeyRevoked(keyId)) return "revoked";
  const key = deps.keys.find(keyId);
  return key === undefined || key.state === "revoked" ? "kid" : undefined;
}

/** Milliseconds since the epoch. */
export function refusedAtMs({ claims }: Pick<VerifiedToken, "claims">): number {
  return (claims.exp + CLOCK_SKEW_S) * 1_000;
}

async function verifyAnew(deps: VerifyTokenDeps, text: string): Promise<VerifiedToken | Refusal> {
  const jws = parseCompactJws(text);
  if (typeof jws === "string") return jws;
  if (jws.header.typ !== ACCESS_TOKEN_TYPE) return "typ";
  if (jws.header.alg !== "EdDSA" && jws.header.alg !== "ES256") return "alg";
  if (!isKeyId(jws.header.kid)) return "kid";
  const key = deps.keys.find(jws.header.kid) ?? (await deps.keys.findAgain(jws.header.kid));
  if (key === undefined || key.state === "revoked") return "kid";
  const signatureRefusal = checkSignature(jws, key);
  if (signatureRefusal !== undefined) return signatureRefusal;
  const rules = { issuer: deps.issuer, accessTtlS: deps.lifetimes.accessTtlS };
  const claims = checkAccessClaims(jws.payload, rules, Math.floor(deps.now().getTime() / 1_000));
  return typeof claims === "string" ? claims : { claims, keyId: key.id };
}

/** The key decides the algorithm, not the header (RFC 8725 §3.1). */
export function checkSignature(
  jws: CompactJws,
  key: Pick<SigningKey, "algorithm" | "publicKey">,
): "alg" | "signature" | undefined {
  if (jws.header.alg !== key.algorithm) return "alg";
  return isSignedBy(jws.text, key) ? undefined : "signature";
}

function refuse(deps: VerifyTokenDeps, refusal: Refusal, token?: VerifiedToken): Verdict {
  deps.countRefusal(refusal);
  deps.logRefusal({ refusal, session: token && logName(token.claims.sid) });
  return { active: false, refusal };
}
