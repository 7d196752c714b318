import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { type AuthorizeGrantDeps, assertMayGrant, assertPermissionNames } from "./assert-may-grant.ts";
import { changeReason } from "./change-reason.ts";
import { insertClient, lockActiveOwner, type MachineClient } from "./client-store.ts";
import type { EndClientTokensDeps } from "./end-client-tokens.ts";

export type ClientsDeps = EndClientTokensDeps & AuthorizeGrantDeps;

/** @param why as `actReason` lets it pass. @throws {DomainError} `validation_failed`, `forbidden`. */
export async function createClient(
  deps: ClientsDeps,
  wanted: { name: string; ownerId: string; permissions: string[] },
  context: CallContext,
  why = "",
): Promise<MachineClient> {
  assertPermissionNames(deps, wanted.permissions);
  assertMayGrant(deps, context, wanted.permissions);
  const createdAt = deps.now();
  const name = clientName(wanted.name);
  const client: MachineClient = {
    ...wanted,
    name,
    id: deps.newId(),
    status: "active",
    createdAt,
    changedAt: createdAt,
  };
  await transaction(deps.sql, async (tx) => {
    await assertOwner(tx, wanted.ownerId);
    await insertClient(tx, client);
    // The same text as for a change of a client that had neither owner nor permissions.
    const reason = changeReason({ ...client, ownerId: null, permissions: [] }, client, why) ?? "";
    await recordAudit(tx, deps, { type: "client_created", userId: client.id, reason }, context);
  });
  return client;
}

/** Without control characters and spaces at its ends. @throws {DomainError} `validation_failed`. */
export function clientName(typed: string): string {
  const name = typed.normalize("NFC").trim();
  if (name !== "" && [...name].length <= 100 && !/\p{C}/u.test(name)) return name;
  const message = "must be 1 to 100 characters without control characters";
  throw new DomainError("validation_failed", undefined, {
    fields: [{ field: "name", code: "invalid_format", message }],
  });
}

/** @throws {DomainError} `validation_failed`. */
export async function assertOwner(tx: TransactionSql, ownerId: string): Promise<void> {
  if (await lockActiveOwner(tx, ownerId)) return;
  const fields = [{ field: "ownerId", code: "invalid_format", message: "is not an active user" }];
  throw new DomainError("validation_failed", undefined, { fields });
}
