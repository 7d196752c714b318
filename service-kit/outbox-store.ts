import type { Sql, SqlPart } from "./postgres.ts";

/** A table of rows to deliver, with the columns `id` and `next_attempt_at`. */
export interface OutboxTable {
  name: string;
  /** Which rows are still to be delivered. */
  waiting: SqlPart;
  /** What to return of a claimed row; its table is called `claimed`. */
  columns: SqlPart;
  /** Counts claims in the column `attempts`. */
  countsAttempts?: boolean;
}

export interface Claim {
  leaseMs: number;
  limit: number;
  /** The time by which rows are due. The database's if absent. */
  now?: Date;
}

/**
 * Takes rows that are due, longest due first. Nobody else takes them before the lease has ended; then they are due again,
 * so that another process delivers those of one that died.
 */
export async function claimDue<Row extends object>(
  sql: Sql,
  { name, waiting, columns, countsAttempts = false }: OutboxTable,
  { leaseMs, limit, now }: Claim,
): Promise<Row[]> {
  const time = now === undefined ? sql`now()` : sql`${now}::timestamptz`;
  return sql<Row[]>`
    with due as materialized (
      select id from ${sql(name)} where (${waiting}) and next_attempt_at <= ${time}
      order by next_attempt_at limit ${limit} for update skip locked
    )
    update ${sql(name)} as claimed
    set next_attempt_at = ${time} + make_interval(secs => ${leaseMs / 1_000})
      ${countsAttempts ? sql`, attempts = claimed.attempts + 1` : sql``}
    from due where claimed.id = due.id
    returning ${columns}
  `;
}
