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

export interface SlotChanges {
  /** Grows whenever a slot leaves or arrives. */
  changes: number;
  /** One that is on its way to another database. */
  leaving: number | null;
}

export async function readSlotChanges(sql: Sql): Promise<SlotChanges> {
  const [row] = await sql<SlotChanges[]>`
    select changes::float8 as changes, (select min(slot) from slots where state = 'leaving') as leaving from part
  `;
  if (row === undefined) throw new Error("the database does not know which part it is");
  return row;
}
