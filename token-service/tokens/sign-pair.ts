import type { Confirmation } from "#kit/rpc/call-context.ts";
import { acrOf } from "#token-client/assurance.ts";
import { MAX_TOKEN_CHARACTERS } from "#token-client/compact-jws.ts";
import { ACCESS_TOKEN_TYPE, REFRESH_TOKEN_TYPE } from "#token-client/token-rules.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import type { TokenLifetimes } from "../revocations/token-lifetimes.ts";
import { type Binding, cnfOf, confirmationOf } from "../rows/confirmation.ts";
import type { SessionRow } from "../rows/session-store.ts";
import { GATEWAY_CLIENT_ID } from "./access-token.ts";
import { authenticateCompactJws, signCompactJws } from "./jws-signature.ts";
import { refreshAudience, tokenId } from "./refresh-token.ts";

export interface SignedAccessToken {
  accessToken: string;
  expiresInS: number;
}

export interface TokenPair extends SignedAccessToken {
  refreshToken: string;
  refreshExpiresInS: number;
  sessionId: string;
  userId: string;
  /** Undefined: bearer tokens. */
  confirmation: Confirmation | undefined;
  /** Of a new session with bearer tokens, for its browser. */
  deviceChallenge?: string;
}

export interface SignPairDeps {
  issuer: string;
  lifetimes: TokenLifetimes;
  keys: Pick<KeyRing, "active">;
  /** @throws {DomainError} `service_unavailable` while the clock is known to be wrong. */
  assertClock: () => void;
}

/** Runs before a commit: without tokens a session is useless. @throws {DomainError} `service_unavailable`. */
export function assertMaySign(deps: SignPairDeps): void {
  deps.assertClock();
  deps.keys.active();
}

/** Repeated requests get the same pair, until half of the access token's life. */
export function signPair(deps: SignPairDeps, session: SessionRow, now: Date): TokenPair {
  const nowS = secondsOf(now);
  const rotatedAtS = secondsOf(session.rotatedAt);
  // A step-up since the rotation is no later than its token.
  const beganAtS = Math.min(Math.max(rotatedAtS, secondsOf(session.authTime)), nowS);
  const issuedAtS = nowS - beganAtS > accessTtlOf(deps, session) / 2 ? nowS : beganAtS;
  const access = signAccessToken(deps, session, { nowS, issuedAtS });

  const { id, userId, generation } = session;
  const idleEndS = secondsOf(session.idleEnd);
  const { id: keyId, refreshSecret: secret } = deps.keys.active();
  // docs/decisions/tokens.md
  const refreshToken = authenticateCompactJws({ id: keyId, secret }, REFRESH_TOKEN_TYPE, {
    iss: deps.issuer,
    aud: refreshAudience(deps.issuer),
    sub: userId,
    sid: id,
    jti: refreshTokenId(session),
    gen: generation,
    iat: rotatedAtS,
    exp: idleEndS,
  });
  const refreshExpiresInS = Math.max(idleEndS - nowS, 0);
  const confirmation = confirmationOf(session);
  return { ...access, refreshToken, refreshExpiresInS, sessionId: id, userId, confirmation };
}

/** Belongs to the session's live generation. Times are in epoch seconds. */
export function signAccessToken(
  deps: SignPairDeps,
  session: SessionRow,
  { nowS, issuedAtS }: { nowS: number; issuedAtS: number },
): SignedAccessToken {
  deps.assertClock(); // The clock may have been set since.
  const { id, userId, generation, tokenSecret } = session;
  const acr = acrOf(session.acr);
  const authTimeS = secondsOf(session.authTime);
  const expiresAtS = Math.min(issuedAtS + accessTtlOf(deps, session), secondsOf(session.idleEnd));
  // Two tokens of a second may differ in their assurance.
  const purpose = `access ${generation} ${issuedAtS} ${authTimeS} ${acr}`;
  const accessToken = signCompactJws(deps.keys.active(), ACCESS_TOKEN_TYPE, {
    iss: deps.issuer,
    aud: deps.issuer,
    sub: userId,
    client_id: GATEWAY_CLIENT_ID,
    sid: id,
    jti: `${generation}.${tokenId(tokenSecret, purpose)}`,
    iat: issuedAtS,
    exp: expiresAtS,
    role: session.role,
    amr: session.amr,
    acr,
    auth_time: authTimeS,
    ...cnfOf(session),
  });
  if (accessToken.length > MAX_TOKEN_CHARACTERS) throw new Error("The token would be too long");
  return { accessToken, expiresInS: Math.max(expiresAtS - nowS, 0) };
}

/** A client that refreshes when its token has expired must find a session that rests for a short time only. */
function accessTtlOf({ lifetimes }: SignPairDeps, { idleS }: Pick<SessionRow, "idleS">): number {
  return idleS === null ? lifetimes.accessTtlS : Math.min(lifetimes.accessTtlS, Math.floor(idleS / 2));
}

export function secondsOf(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}

function refreshTokenId(session: SessionRow): string {
  return tokenId(session.tokenSecret, refreshPurpose(session.generation, session));
}

/** Covers the binding: a replica that does not know of it finds the token invalid. */
export function refreshPurpose(generation: number, { jkt, x5tS256 }: Binding): string {
  if (jkt !== null) return `refresh ${generation} jkt ${jkt}`;
  return x5tS256 === null ? `refresh ${generation}` : `refresh ${generation} x5t#S256 ${x5tS256}`;
}
