import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import type { ClientEnd } from "./client-end-store.ts";
import { lockOwnedClients, type MachineClient, updateClient } from "./client-store.ts";
import { replaceCredentialIds } from "./credential-store.ts";
import { endClientTokens, owesClientEnd } from "./end-client-tokens.ts";

/** Of a user, at once. */
const MAX_CLIENTS = 100;
const MAX_IDS_OF_END = 20;

export interface LeftClients {
  /** The user's clients that were active, newest first, as they are now; at most 100. */
  clients: MachineClient[];
  /** For `endLeftClients`, after the commit. */
  ends: ClientEnd[];
}

/**
 * The active clients of a user who is disabled or deleted live on, or are disabled too. The audit log has an entry for each.
 * Call under the account's lock, in the transaction that takes the account away. `isLeaving`: not for the second time.
 * @throws {DomainError} `conflict` if more are to be disabled than can be at once.
 */
export async function leaveClients(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  { userId, disable, isLeaving }: { userId: string; disable: boolean; isLeaving: boolean },
  context: CallContext,
): Promise<LeftClients> {
  const found = await lockOwnedClients(tx, userId, MAX_CLIENTS + 1);
  if (disable && found.length > MAX_CLIENTS)
    throw new DomainError("conflict", `The user has more than ${MAX_CLIENTS} active clients.`);
  const clients: MachineClient[] = [];
  const ended: string[] = [];
  for (const before of found.slice(0, MAX_CLIENTS)) {
    const after = disable ? disabled(before, deps.now()) : before;
    if (disable) {
      await updateClient(tx, after);
      ended.push(...(await replaceCredentialIds(tx, before.id)));
    }
    const changes = [...(disable ? ["status disabled"] : []), ...(isLeaving ? ["owner leaves"] : [])];
    const reason = changes.join(", ");
    if (reason !== "")
      await recordAudit(tx, deps, { type: "client_changed", userId: before.id, reason }, context);
    clients.push(after);
  }
  const ends: ClientEnd[] = [];
  for (let from = 0; from < ended.length; from += MAX_IDS_OF_END) {
    const end = await owesClientEnd(tx, deps, ended.slice(from, from + MAX_IDS_OF_END));
    if (end !== undefined) ends.push(end);
  }
  return { clients, ends };
}

/** @throws {DomainError} `service_unavailable`; the worker retries. */
export async function endLeftClients(
  deps: Parameters<typeof endClientTokens>[0],
  { ends }: Pick<LeftClients, "ends">,
  context: CallContext,
): Promise<void> {
  for (const end of ends) await endClientTokens(deps, end, context);
}

function disabled(client: MachineClient, now: Date): MachineClient {
  return { ...client, status: "disabled", changedAt: now > client.changedAt ? now : client.changedAt };
}
