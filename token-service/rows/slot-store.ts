import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";

/** The sessions of the slot are in another database, or on their way to one. */
export class SlotAwayError extends DomainError {
  constructor(slot: number) {
    super("service_unavailable", `Sessions of slot ${slot} are being moved`, { retryAfterMs: 1_000 });
  }
}

/** For a row that was not found. @throws {SlotAwayError} */
export async function assertHere(sql: Sql | TransactionSql, slots: readonly number[]): Promise<void> {
  const [away] = await sql<{ slot: number }[]>`
    select slot from slots where slot = any(${slots}::smallint[]) and state <> 'here' limit 1
  `;
  if (away !== undefined) throw new SlotAwayError(away.slot);
}

/** Grows whenever a slot leaves or arrives. */
export async function readSlotChanges(sql: Sql): Promise<number> {
  const [row] = await sql<{ changes: number }[]>`select changes::float8 as changes from part`;
  return row?.changes ?? 0;
}
