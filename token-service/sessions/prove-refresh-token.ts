import type { Confirmation } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { isProven } from "../rows/confirmation.ts";
import { readSession } from "../rows/session-store.ts";
import { isTokenId } from "../tokens/refresh-token.ts";
import { refreshPurpose } from "../tokens/sign-pair.ts";
import { type RefreshSessionDeps, verifyRefreshToken } from "./refresh-session.ts";

/**
 * Of a bound session, only together with its key: a stolen token must not end it. Also accepts the parent of the newest token, because the answer of a refresh may have been lost.
 * @throws {DomainError} `refresh_token_invalid`.
 */
export async function proveRefreshToken(
  deps: Pick<RefreshSessionDeps, "sql" | "keys" | "issuer" | "now">,
  presented: string,
  proven?: Confirmation,
): Promise<{ userId: string; sessionId: string }> {
  const claims = await verifyRefreshToken(deps, presented);
  if (claims === undefined) throw new DomainError("refresh_token_invalid");
  const session = await readSession(deps.sql, claims.sid);
  const isProof =
    session?.userId === claims.sub &&
    isTokenId(claims.jti, session.tokenSecret, refreshPurpose(claims.gen, session)) &&
    isProven(session, proven) &&
    claims.gen >= session.generation - 1;
  if (!isProof || session.revokedAt !== null || session.idleEnd <= deps.now()) {
    throw new DomainError("refresh_token_invalid");
  }
  return { userId: session.userId, sessionId: session.id };
}
