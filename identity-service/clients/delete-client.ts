import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { deleteClientRow, lockClient, touchClient } from "./client-store.ts";
import { deleteCredential, selectCredentials } from "./credential-store.ts";
import { type EndClientTokensDeps, endClientTokens, owesClientEnd } from "./end-client-tokens.ts";

/** @param reason why, as `actReason` lets it pass. @throws {DomainError} `not_found`. */
export async function deleteClient(
  deps: EndClientTokensDeps,
  clientId: string,
  context: CallContext,
  reason = "",
): Promise<void> {
  const end = await transaction(deps.sql, async (tx) => {
    if ((await lockClient(tx, clientId)) === undefined) throw new DomainError("not_found");
    const credentials = await selectCredentials(tx, clientId);
    await deleteClientRow(tx, clientId);
    await recordAudit(tx, deps, { type: "client_deleted", userId: clientId, reason }, context);
    return owesClientEnd(
      tx,
      deps,
      credentials.map(({ id }) => id),
    );
  });
  await endClientTokens(deps, end, context);
}

/** @throws {DomainError} `not_found`. */
export async function revokeCredential(
  deps: EndClientTokensDeps,
  { clientId, credentialId }: { clientId: string; credentialId: string },
  context: CallContext,
  why = "",
): Promise<void> {
  const end = await transaction(deps.sql, async (tx) => {
    if ((await lockClient(tx, clientId)) === undefined) throw new DomainError("not_found");
    const revoked = await deleteCredential(tx, clientId, credentialId);
    if (revoked === undefined) throw new DomainError("not_found");
    await touchClient(tx, clientId, deps.now());
    const reason = withReason(`${revoked.kind} ${credentialId}`, why);
    await recordAudit(tx, deps, { type: "client_credential_revoked", userId: clientId, reason }, context);
    return owesClientEnd(tx, deps, [credentialId]);
  });
  await endClientTokens(deps, end, context);
}
