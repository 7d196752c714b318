import type { CallContext, Confirmation } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { ClientToken, TokenService } from "../sessions/token-service-client.ts";
import { type AuthenticateClientDeps, authenticateClient, type ClientProof } from "./authenticate-client.ts";

export interface GrantClientTokenDeps extends AuthenticateClientDeps {
  tokenService: Pick<TokenService, "issueClientToken">;
}

export interface TokenRequest {
  proof: ClientProof;
  clientIp: string;
  /** Names of permissions, separated by spaces. Empty: all of the client's. */
  scope: string;
  confirmation: Confirmation | undefined;
}

export interface GrantedToken extends ClientToken {
  clientId: string;
  credentialId: string;
  scope: string;
}

/** RFC 6749 §4.4. @throws {DomainError} `invalid_client`, `invalid_scope`, `too_many_requests`. */
export async function grantClientToken(
  deps: GrantClientTokenDeps,
  { proof, clientIp, scope, confirmation }: TokenRequest,
  context: CallContext,
): Promise<GrantedToken> {
  const { id, clientId, permissions, provenAt } = await authenticateClient(deps, proof, clientIp);
  const scopes = grantedOf(scope, permissions);
  const proven = { clientId, credentialId: id, scopes, provenAt, confirmation };
  const token = await deps.tokenService.issueClientToken(proven, context);
  return { ...token, clientId, credentialId: id, scope: scopes.join(" ") };
}

function grantedOf(scope: string, permissions: readonly string[]): readonly string[] {
  if (scope === "") return permissions;
  const wanted = [...new Set(scope.split(" "))];
  if (!wanted.every((name) => permissions.includes(name))) throw new DomainError("invalid_scope");
  return wanted;
}
