import { v5 as uuidv5 } from "uuid";
import { isSameAudience } from "#kit/values/audience.ts";
import { DomainError } from "#kit/values/errors.ts";
import { isApiKey } from "#token-client/bearer-token.ts";
import { MAX_TOKEN_CHARACTERS } from "#token-client/compact-jws.ts";
import { ACCESS_TOKEN_TYPE } from "#token-client/token-rules.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import { type AccessClaims, generationOf, isOfClient } from "./access-token.ts";
import { signCompactJws } from "./jws-signature.ts";
import { refreshAudience, tokenId } from "./refresh-token.ts";
import { refusedAtMs, type VerifiedToken, type VerifyTokenDeps, verifyToken } from "./verify-token.ts";

export interface ExchangeTokenDeps extends Omit<VerifyTokenDeps, "keys"> {
  keys: Pick<KeyRing, "find" | "findAgain" | "active">;
}

interface ExchangedToken {
  accessToken: string;
  keyId: string;
  /** Until it is refused as expired. */
  expiresInMs: number;
}

/**
 * The new token has the life of the old one, so that no revocation is forgotten before it. Repeated requests get the same
 * claims, so that an upstream sees one token whichever gateway asked. `cnf` is left out: the gateway has checked the proof.
 * @throws {DomainError} `token_invalid` (also if revoked), `token_expired`, `validation_failed` for an audience of
 * Gatehouse's own, or `service_unavailable`.
 */
export async function exchangeToken(
  deps: ExchangeTokenDeps,
  { token, audience }: { token: string; audience: string },
): Promise<ExchangedToken> {
  const own = [deps.issuer, refreshAudience(deps.issuer)];
  if (own.some((each) => isSameAudience(each, audience)))
    throw new DomainError("validation_failed", "The audience is Gatehouse itself");
  // A key is proven anew, so that its token has a whole life.
  if (isApiKey(token)) deps.verified.delete(token);
  const verdict = await verifyToken(deps, token, { acceptsBound: true });
  if (!verdict.active) throw new DomainError(verdict.refusal === "exp" ? "token_expired" : "token_invalid");
  const key = deps.keys.active();
  const claims = claimsFor(verdict.token, audience);
  const accessToken = signCompactJws(key, ACCESS_TOKEN_TYPE, claims);
  if (accessToken.length > MAX_TOKEN_CHARACTERS)
    throw new DomainError("validation_failed", "The token for this audience would be too long");
  const expiresInMs = Math.max(1, refusedAtMs({ claims }) - deps.now().getTime());
  return { accessToken, keyId: key.id, expiresInMs };
}

/** What a token does not name here, it does not pass on. */
function claimsFor({ claims, keyId }: VerifiedToken, aud: string): AccessClaims {
  const { iss, sub, sid, jti, iat, exp } = claims;
  const common = { iss, aud, sub, sid, iat, exp, origin_jti: jti, ...(keyId && { origin_kid: keyId }) };
  if (isOfClient(claims)) {
    const { client_id, scope } = claims;
    return { ...common, client_id, jti: uuidv5(`${jti} ${iat} ${aud}`, client_id), scope };
  }
  const { client_id, role, amr, acr, auth_time } = claims;
  const ownId = tokenId(Buffer.from(jti), `audience ${aud}`);
  return {
    ...common,
    jti: `${generationOf(claims)}.${ownId}`,
    client_id,
    role,
    amr,
    acr,
    auth_time,
  };
}
