import { DomainError } from "../../service-kit/errors.ts";
import type { Principal, TokenVerifier } from "../../token-client/principal.ts";

const BEARER = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * Who calls, as token-service says: the gateway has checked already, but whoever reaches this port directly
 * could write any `X-User-Id`. The header is therefore only compared.
 *
 * @throws {DomainError} `token_missing`, `token_invalid`, `token_expired` or `service_unavailable`.
 */
export async function verifiedPrincipal(
  verifier: Pick<TokenVerifier, "verify">,
  headers: { authorization?: string | undefined; "x-user-id"?: string | string[] | undefined },
): Promise<Principal> {
  if (headers.authorization === undefined) throw new DomainError("token_missing");
  const token = BEARER.exec(headers.authorization)?.[1];
  if (token === undefined) throw new DomainError("token_invalid");
  const verification = await verifier.verify(token);
  if (verification.kind === "inactive") {
    throw new DomainError(verification.reason === "expired" ? "token_expired" : "token_invalid");
  }
  const claimed = headers["x-user-id"];
  if (claimed !== undefined && claimed !== verification.principal.userId)
    throw new DomainError("token_invalid");
  return verification.principal;
}
