import { ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE } from "../token-client/token-rules.ts";
import { signCompactJws } from "./jws-signature.ts";
import type { KeyRing } from "./key-ring.ts";
import { refreshAudience } from "./refresh-token.ts";
import type { SessionRow } from "./session-store.ts";
import { tokenId } from "./token-id.ts";
import type { TokenLifetimes } from "./token-lifetimes.ts";

export interface TokenPair {
  accessToken: string;
  refreshToken: string;
  expiresInS: number;
  sessionId: string;
  userId: string;
}

export interface SignPairDeps {
  issuer: string;
  lifetimes: TokenLifetimes;
  keys: Pick<KeyRing, "active">;
  /** @throws {DomainError} `service_unavailable` while the clock is known to be wrong. */
  assertClock: () => void;
}

/** Runs before a commit: without signed tokens a session is useless. @throws {DomainError} `service_unavailable`. */
export function assertMaySign(deps: SignPairDeps): void {
  deps.assertClock();
  deps.keys.active();
}

/** All claims come from the row, so that repeated requests get the same pair, until half of the access token's life. */
export function signPair(deps: SignPairDeps, session: SessionRow, now: Date): TokenPair {
  deps.assertClock(); // The clock may have been set since.
  const nowS = Math.floor(now.getTime() / 1_000);
  const rotatedAtS = Math.floor(session.rotatedAt.getTime() / 1_000);
  const { accessTtlS } = deps.lifetimes;
  const issuedAtS = nowS - rotatedAtS > accessTtlS / 2 ? nowS : rotatedAtS;
  const expiresAtS = Math.min(issuedAtS + accessTtlS, Math.floor(session.idleEnd.getTime() / 1_000));
  const key = deps.keys.active();

  const { id, userId, generation, tokenSecret } = session;
  const accessToken = signCompactJws(key, ACCESS_TOKEN_TYPE, {
    iss: deps.issuer,
    aud: deps.issuer,
    sub: userId,
    sid: id,
    jti: `${generation}.${tokenId(tokenSecret, `access ${generation} ${issuedAtS}`)}`,
    iat: issuedAtS,
    exp: expiresAtS,
    role: session.role,
    amr: session.amr,
    auth_time: Math.floor(session.authTime.getTime() / 1_000),
  });
  const refreshToken = signCompactJws(key, REFRESH_TOKEN_TYPE, {
    iss: deps.issuer,
    aud: refreshAudience(deps.issuer),
    sub: userId,
    sid: id,
    jti: refreshTokenId(session),
    gen: generation,
    iat: rotatedAtS,
    exp: Math.floor(session.idleEnd.getTime() / 1_000),
  });
  return { accessToken, refreshToken, expiresInS: Math.max(expiresAtS - nowS, 0), sessionId: id, userId };
}

function refreshTokenId(session: Pick<SessionRow, "tokenSecret" | "generation">): string {
  return tokenId(session.tokenSecret, refreshPurpose(session.generation));
}

export function refreshPurpose(generation: number): string {
  return `refresh ${generation}`;
}
