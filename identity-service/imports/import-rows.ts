import { isUniqueViolation, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAuditOfMany } from "../audit/record-audit.ts";
import { selectWaitingEvents } from "../audit/security-event-store.ts";
import { insertIdentities } from "../identities/external-identity-store.ts";
import { insertConfirmedSecrets } from "../mfa/mfa-store.ts";
import { sealTotpSecret } from "../mfa/totp-secret.ts";
import { insertImportedUsers, lockAddresses } from "../users/user-store.ts";
import { insertBatch, lockImport } from "./import-store.ts";
import type { ImportsDeps, Judged, NewUser } from "./judge-row.ts";
import { type ImportRow, judgeRows, newUsers, refuseTaken } from "./judge-rows.ts";

export interface RowsToImport {
  importId: string;
  /** From 1. */
  firstRow: number;
  rows: readonly ImportRow[];
}

/** Events of logins wait behind those of an import: for about a second, at most. */
const MAX_WAITING_EVENTS = 2_000;
const RETRY_AFTER_MS = 250;

/**
 * Makes users of rows, all in one transaction with the count of rows, so that no row is stored twice or lost.
 * @returns the next row. Other rows than that are not stored. @throws {DomainError} `not_found`, `validation_failed`, `busy`.
 */
export async function importRows(
  deps: ImportsDeps,
  batch: RowsToImport,
  context: CallContext,
): Promise<number> {
  const judged = judgeRows(deps, batch.rows);
  const { count } = await selectWaitingEvents(deps.sql);
  if (count > MAX_WAITING_EVENTS) {
    throw new DomainError("busy", "The audit log is behind", { retryAfterMs: RETRY_AFTER_MS });
  }
  const store = () => transaction(deps.sql, (tx) => storeRows(tx, deps, { ...batch, judged }, context));
  return store().catch((error) => {
    // Somebody has linked an identity meanwhile, which is visible now.
    if (isUniqueViolation(error, "external_identities_pkey")) return store();
    throw error;
  });
}

async function storeRows(
  tx: TransactionSql,
  deps: ImportsDeps,
  { importId, firstRow, judged }: RowsToImport & { judged: readonly Judged[] },
  context: CallContext,
): Promise<number> {
  const found = await lockImport(tx, importId);
  if (found === undefined) throw new DomainError("not_found");
  if (found.nextRow !== firstRow || found.completedAt !== null) return found.nextRow;
  await lockAddresses(
    tx,
    newUsers(judged).map(({ account }) => account.email),
  );
  const settled = await refuseTaken(tx, judged, deps.now());
  await insertUsers(tx, deps, newUsers(settled));
  const events = settled.flatMap((user, index) =>
    typeof user === "string" ? [] : [importedEvent(deps, user, `import ${importId} row ${firstRow + index}`)],
  );
  await recordAuditOfMany(tx, deps, events, context);
  const userIds = newUsers(settled).map(({ account }) => account.id);
  const refusals = settled.map((user) => (typeof user === "string" ? user : ""));
  await insertBatch(tx, importId, { firstRow, userIds, refusals });
  return firstRow + settled.length;
}

async function insertUsers(
  tx: TransactionSql,
  { mfaKeys, now }: ImportsDeps,
  users: readonly NewUser[],
): Promise<void> {
  if (users.length === 0) return;
  await insertImportedUsers(
    tx,
    users.map(({ account }) => account),
  );
  const linkedAt = now();
  await insertIdentities(
    tx,
    users.flatMap(({ account: { id: userId }, identities }) =>
      identities.map((identity) => ({ ...identity, userId, email: null, linkedAt })),
    ),
  );
  const secrets = users.flatMap(({ account: { id: userId }, totpSecret }) =>
    totpSecret === undefined ? [] : [{ userId, ...sealTotpSecret(mfaKeys, userId, totpSecret) }],
  );
  await insertConfirmedSecrets(tx, secrets, linkedAt);
}

/** What nobody has shown here is the operator's claim, and called so. */
function importedEvent({ access }: ImportsDeps, { account, identities, totpSecret }: NewUser, by: string) {
  const { id: userId, emailVerified, role, status } = account;
  const facts = [
    emailVerified ? "address verified by the operator's claim" : "address not verified",
    ...(role === access.defaultRole ? [] : [role]),
    ...(status === "active" ? [] : [status]),
    ...(totpSecret === undefined ? [] : ["TOTP"]),
    ...(identities.length === 0 ? [] : [`${identities.length} identities`]),
  ];
  return { type: "imported", userId, reason: `${by}: ${facts.join(", ")}` } as const;
}
