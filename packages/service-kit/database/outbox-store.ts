import type { Sql, SqlPart } from "./postgres.ts";

/** Needs the columns `id` and `next_attempt_at`. */
export interface OutboxTable {
  name: string;
  /** Condition of undelivered rows. */
  waiting: SqlPart;
  /** Result columns. The table's alias is `claimed`. */
  columns: SqlPart;
  countsAttempts?: boolean;
}

export interface Claim {
  leaseMs: number;
  limit: number;
  /** Defaults to the database's clock. */
  now?: Date;
}

/** Longest due first. Rows are due again after the lease, in case the process has died. */
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
