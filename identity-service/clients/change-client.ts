import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { assertMayGrant, assertPermissionNames } from "./assert-may-grant.ts";
import { changeReason } from "./change-reason.ts";
import { type ClientStatus, lockClient, type MachineClient, updateClient } from "./client-store.ts";
import { assertOwner, type ClientsDeps, clientName } from "./create-client.ts";
import { replaceCredentialIds } from "./credential-store.ts";
import { endClientTokens, owesClientEnd } from "./end-client-tokens.ts";

/** Undefined fields stay. */
export interface ClientChange {
  clientId: string;
  name?: string | undefined;
  ownerId?: string | undefined;
  permissions?: string[] | undefined;
  status?: ClientStatus | undefined;
}

/**
 * What takes rights away ends the tokens that have them: the credentials go on under new ids.
 * @throws {DomainError} `not_found`, `validation_failed`, `forbidden`.
 */
export async function changeClient(
  deps: ClientsDeps,
  change: ClientChange,
  context: CallContext,
  why = "",
): Promise<MachineClient> {
  const { clientId, ownerId } = change;
  if (change.permissions !== undefined) assertPermissionNames(deps, change.permissions);
  const { client, end } = await transaction(deps.sql, async (tx) => {
    const before = await lockClient(tx, clientId);
    if (before === undefined) throw new DomainError("not_found");
    const after = changed(before, change, deps.now());
    const isReopened = before.status === "disabled" && after.status === "active";
    const added = after.permissions.filter((name) => isReopened || !before.permissions.includes(name));
    assertMayGrant(deps, context, added);
    if (ownerId !== undefined && ownerId !== before.ownerId) await assertOwner(tx, ownerId);
    const reason = changeReason(before, after, why);
    if (reason === undefined && change.status !== "disabled") return { client: before, end: undefined };
    await updateClient(tx, after);
    if (reason !== undefined) {
      await recordAudit(tx, deps, { type: "client_changed", userId: before.id, reason }, context);
    }
    const takesAway = before.permissions.some((name) => !after.permissions.includes(name));
    // A repeated disable revokes again.
    const ended = takesAway || change.status === "disabled" ? await replaceCredentialIds(tx, before.id) : [];
    return { client: after, end: await owesClientEnd(tx, deps, ended) };
  });
  await endClientTokens(deps, end, context);
  return client;
}

function changed(before: MachineClient, change: ClientChange, now: Date): MachineClient {
  return {
    ...before,
    name: change.name === undefined ? before.name : clientName(change.name),
    ownerId: change.ownerId ?? before.ownerId,
    permissions: change.permissions ?? before.permissions,
    status: change.status ?? before.status,
    changedAt: now > before.changedAt ? now : before.changedAt,
  };
}
