import { randomUUID } from "node:crypto";
import type { Confirmation } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { MAX_TOKEN_CHARACTERS } from "#token-client/compact-jws.ts";
import { ACCESS_TOKEN_TYPE } from "#token-client/token-rules.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { bindingTo, cnfOf } from "../rows/confirmation.ts";
import { signCompactJws } from "./jws-signature.ts";
import { assertProvenNow } from "./proven-now.ts";
import { assertMaySign, type SignedAccessToken, type SignPairDeps, secondsOf } from "./sign-pair.ts";

export interface ProvenClient {
  clientId: string;
  credentialId: string;
  /** Holds at least one. */
  scopes: readonly string[];
  /** Database time at which the credential was live. */
  provenAt: Date;
  /** What it has proven beside its credential. */
  proven?: Confirmation | undefined;
}

export interface IssueClientTokenDeps extends SignPairDeps {
  revocations: Pick<RevocationFeed, "isSessionRevoked">;
  now: () => Date;
}

/**
 * The token's life counts from the proof, not from now: a revocation that was committed after the proof outlives it,
 * however long this call was under way. @throws {DomainError} `invalid_client` if the credential is known to be
 * revoked; `invalid_scope` for a scope that no token can carry; `service_unavailable` if the proof is too old or from the future.
 */
export function issueClientToken(deps: IssueClientTokenDeps, client: ProvenClient): SignedAccessToken {
  assertMaySign(deps);
  const { clientId, credentialId, scopes, provenAt } = client;
  if (deps.revocations.isSessionRevoked(credentialId)) throw new DomainError("invalid_client");
  const nowS = secondsOf(deps.now());
  const issuedAtS = assertProvenNow(provenAt, deps.now());
  const expiresAtS = issuedAtS + deps.lifetimes.accessTtlS;
  const accessToken = signCompactJws(deps.keys.active(), ACCESS_TOKEN_TYPE, {
    iss: deps.issuer,
    aud: deps.issuer,
    sub: clientId,
    client_id: clientId,
    sid: credentialId,
    jti: randomUUID(),
    iat: issuedAtS,
    exp: expiresAtS,
    scope: scopes.join(" "),
    ...cnfOf(bindingTo(client.proven)),
  });
  if (accessToken.length > MAX_TOKEN_CHARACTERS)
    throw new DomainError("invalid_scope", "The token for this scope would be too long");
  return { accessToken, expiresInS: Math.max(expiresAtS - nowS, 0) };
}
