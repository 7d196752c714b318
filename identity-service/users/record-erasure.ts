import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import type { Account, Locked } from "./account.ts";
import { listFormerAddresses } from "./account-store.ts";

/** Call before the erasure. The audit log erases former addresses too. */
export async function recordErasure(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  erasure: { account: Locked<Pick<Account, "id" | "email">>; byOwner?: boolean; reason?: string },
  context: CallContext,
): Promise<void> {
  const { account, ...cause } = erasure;
  const { id: userId, email } = account;
  await recordAudit(tx, deps, { type: "account_deleted", userId, ...cause, erasedEmail: email }, context);
  for (const erasedEmail of await listFormerAddresses(tx, userId)) {
    await recordAudit(tx, deps, { type: "former_address_erased", userId, ...cause, erasedEmail }, context);
  }
}
