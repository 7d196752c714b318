import type { LRUCache } from "lru-cache";
import { CLOCK_SKEW_S } from "#token-client/assurance.ts";
import { isApiKey } from "#token-client/bearer-token.ts";
import {
  type CompactJws,
  isAlgorithm,
  isKeyId,
  isSignedBy,
  type PublicSigningKey,
  parseCompactJws,
} from "#token-client/compact-jws.ts";
import { ACCESS_TOKEN_TYPE } from "#token-client/token-rules.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { logName, type SigningKey } from "../keys/signing-key.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { KEY_HANDOVER_S, type TokenLifetimes } from "../revocations/token-lifetimes.ts";
import type { LeafMarker } from "../rows/leaf-marker.ts";
import {
  type AccessClaims,
  type ClientClaims,
  checkAccessClaims,
  generationOf,
  isOfClient,
} from "./access-token.ts";
import { assertProvenNow } from "./proven-now.ts";

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
  | "revoked"
  | "api_key"
  | "bound";

export interface VerifiedToken {
  claims: AccessClaims;
  /** Undefined for an API key. */
  keyId: string | undefined;
}

/** What an API key proves. */
export interface ProvenApiKey {
  clientId: string;
  credentialId: string;
  publicId: string;
  scopes: readonly string[];
  /** Time of identity-service's database at which the key was live. */
  provenAt: Date;
}

export type Verdict = { active: true; token: VerifiedToken } | { active: false; refusal: Refusal };

export interface VerifyTokenDeps {
  issuer: string;
  lifetimes: TokenLifetimes;
  keys: Pick<KeyRing, "find" | "findAgain">;
  revocations: Pick<RevocationFeed, "isSessionRevoked" | "isKeyRevoked"> & {
    /** @param sessionId of a user. @returns a promise while it moves. @throws {DomainError} `service_unavailable` */
    assertFresh: (sessionId?: string) => Promise<void> | undefined | void;
  };
  leaves: Pick<LeafMarker, "saw">;
  /** Undefined for a key that is not live. @throws {DomainError} `service_unavailable`. */
  askForApiKey: (text: string) => Promise<ProvenApiKey | undefined>;
  /** Keyed by the exact text. */
  verified: LRUCache<string, VerifiedToken>;
  now: () => Date;
  assertClock: () => void;
  countRefusal: (refusal: Refusal) => void;
  logRefusal: (facts: { refusal: Refusal; session: string | undefined }) => void;
}

/** What a verifier asks. */
interface Expected {
  /** Whether the proof of a bound token's key is checked, which this does not. Default: no. */
  acceptsBound?: boolean | undefined;
  /** Default: the issuer. */
  audience?: string | undefined;
}

/**
 * A token is for the issuer or for one upstream, an API key for the issuer only.
 * @throws {DomainError} `service_unavailable` while revocations are uncertain or the clock is wrong.
 */
export async function verifyToken(
  deps: VerifyTokenDeps,
  text: string,
  { acceptsBound = false, audience = deps.issuer }: Expected = {},
): Promise<Verdict> {
  deps.revocations.assertFresh();
  deps.assertClock();
  const known = deps.verified.get(text);
  if (known !== undefined && known.claims.aud !== audience) return refuse(deps, "aud", known);
  // A revoked API key may be live again under another id of its credential; what is refused is forgotten.
  const isOutdated = known !== undefined && isApiKey(text) && refusalNow(deps, known) !== undefined;
  const result = known === undefined || isOutdated ? await verifyAnew(deps, text, audience) : known;
  if (typeof result === "string") {
    deps.verified.delete(text);
    return refuse(deps, result);
  }
  const moving = isOfClient(result.claims) ? undefined : deps.revocations.assertFresh(result.claims.sid);
  if (moving !== undefined) await moving;
  const refusal = refusalNow(deps, result);
  if (refusal !== undefined) {
    deps.verified.delete(text);
    return refuse(deps, refusal, result);
  }
  if (result !== known) {
    deps.verified.set(text, result);
    if (!isOfClient(result.claims))
      deps.leaves.saw({ sessionId: result.claims.sid, generation: generationOf(result.claims) });
  }
  if (!acceptsBound && result.claims.cnf !== undefined) return refuse(deps, "bound", result);
  return { active: true, token: result };
}

function refusalNow(deps: VerifyTokenDeps, { claims, keyId }: VerifiedToken): Refusal | undefined {
  if (deps.now().getTime() >= refusedAtMs({ claims })) return "exp";
  if (deps.revocations.isSessionRevoked(claims.sid)) return "revoked";
  if (isOfClient(claims) && isTokenRevoked(deps, claims)) return "revoked";
  if (keyId === undefined) return undefined;
  const { origin_kid: originKeyId } = claims;
  if (deps.revocations.isKeyRevoked(keyId)) return "revoked";
  if (originKeyId !== undefined && deps.revocations.isKeyRevoked(originKeyId)) return "revoked";
  const key = deps.keys.find(keyId);
  return key === undefined || key.state === "revoked" || isAfterEndOf(key, claims) ? "kid" : undefined;
}

/** The key has signed nothing since: somebody else has it. */
function isAfterEndOf({ retiredAt }: SigningKey, { iat }: AccessClaims): boolean {
  return retiredAt !== null && iat * 1_000 > retiredAt.getTime() + KEY_HANDOVER_S * 1_000;
}

function isTokenRevoked(
  { revocations }: VerifyTokenDeps,
  { jti, origin_jti: origin }: ClientClaims,
): boolean {
  return revocations.isSessionRevoked(jti) || (origin !== undefined && revocations.isSessionRevoked(origin));
}

/** Milliseconds since the epoch. */
export function refusedAtMs({ claims }: { claims: Pick<AccessClaims, "exp"> }): number {
  return (claims.exp + CLOCK_SKEW_S) * 1_000;
}

async function verifyAnew(
  deps: VerifyTokenDeps,
  text: string,
  audience: string,
): Promise<VerifiedToken | Refusal> {
  if (isApiKey(text)) return audience === deps.issuer ? verifyApiKey(deps, text) : "aud";
  const jws = parseCompactJws(text);
  if (typeof jws === "string") return jws;
  if (jws.header.typ !== ACCESS_TOKEN_TYPE) return "typ";
  if (!isAlgorithm(jws.header.alg)) return "alg";
  if (!isKeyId(jws.header.kid)) return "kid";
  const key = deps.keys.find(jws.header.kid) ?? (await deps.keys.findAgain(jws.header.kid));
  if (key === undefined || key.state === "revoked") return "kid";
  const signatureRefusal = checkSignature(jws, key);
  if (signatureRefusal !== undefined) return signatureRefusal;
  const rules = { issuer: deps.issuer, audience, accessTtlS: deps.lifetimes.accessTtlS };
  const claims = checkAccessClaims(jws.payload, rules, Math.floor(deps.now().getTime() / 1_000));
  return typeof claims === "string" ? claims : { claims, keyId: key.id };
}

/** Counts like a token that was issued when the key was asked for. @throws {DomainError} `service_unavailable`. */
async function verifyApiKey(deps: VerifyTokenDeps, text: string): Promise<VerifiedToken | Refusal> {
  const proven = await deps.askForApiKey(text);
  if (proven === undefined) return "api_key";
  const { clientId, credentialId, publicId, scopes } = proven;
  const iat = assertProvenNow(proven.provenAt, deps.now());
  const claims: ClientClaims = {
    iss: deps.issuer,
    aud: deps.issuer,
    sub: clientId,
    client_id: clientId,
    sid: credentialId,
    jti: publicId,
    scope: scopes.join(" "),
    iat,
    exp: iat + deps.lifetimes.accessTtlS,
  };
  return { claims, keyId: undefined };
}

/** The key decides the algorithm, not the header (RFC 8725 §3.1). */
export function checkSignature(jws: CompactJws, key: PublicSigningKey): "alg" | "signature" | undefined {
  if (jws.header.alg !== key.algorithm) return "alg";
  return isSignedBy(jws.text, key) ? undefined : "signature";
}

function refuse(deps: VerifyTokenDeps, refusal: Refusal, token?: VerifiedToken): Verdict {
  deps.countRefusal(refusal);
  deps.logRefusal({ refusal, session: token && logName(token.claims.sid) });
  return { active: false, refusal };
}
