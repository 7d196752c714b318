import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface WrongCodes {
  /** Since the last right code. */
  inARow: number;
  /** Oldest first. */
  failedAt: readonly Date[];
}

/** Requires the user lock. Ignores codes before the last password change. */
export async function readWrongCodes(
  tx: TransactionSql,
  which: { userId: string; isKnownDevice: boolean; since: Date },
): Promise<WrongCodes> {
  const { userId, isKnownDevice, since } = which;
  const [row] = await tx<{ inARow: number | null; failedAt: Date[] }[]>`
    select ${isKnownDevice ? tx`known_in_a_row` : tx`unknown_in_a_row`} as "inARow",
      array(
        select failed_at from mfa_failures as failure
        where failure.user_id = ${userId} and on_known_device = ${isKnownDevice} and failed_at > ${since}
          and (forgiven_at is null or failed_at >= forgiven_at)
        order by failed_at
      ) as "failedAt"
    from (values (1)) as one left join mfa_guessing on user_id = ${userId}
  `;
  return { inARow: row?.inARow ?? 0, failedAt: row?.failedAt ?? [] };
}

/** Requires the user lock. Returns the number in a row, of known and other devices together. */
export async function insertWrongCode(
  tx: TransactionSql,
  failure: { id: string; userId: string; isKnownDevice: boolean; failedAt: Date },
): Promise<number> {
  const { id, userId, isKnownDevice, failedAt } = failure;
  await tx`
    insert into mfa_failures (id, user_id, failed_at, on_known_device)
    values (${id}, ${userId}, ${failedAt}, ${isKnownDevice})
  `;
  const column = isKnownDevice ? tx`known_in_a_row` : tx`unknown_in_a_row`;
  const [row] = await tx<{ inARow: number }[]>`
    insert into mfa_guessing as guessing (user_id, ${column}) values (${userId}, 1)
    on conflict (user_id) do update set ${column} = guessing.${column} + 1
    returning unknown_in_a_row + known_in_a_row as "inARow"
  `;
  return row?.inARow ?? 0;
}

/** Codes of the last day still count for the daily limit. */
export async function endWrongRows(tx: TransactionSql, userId: string): Promise<void> {
  await tx`
    update mfa_guessing set unknown_in_a_row = 0, known_in_a_row = 0
    where user_id = ${userId} and (unknown_in_a_row > 0 or known_in_a_row > 0)
  `;
}

/** Forgets earlier codes too, unless done since `forgivenBefore`. */
export async function forgiveWrongCodes(
  tx: TransactionSql,
  which: { userId: string; now: Date; forgivenBefore: Date },
): Promise<void> {
  const { userId, now, forgivenBefore } = which;
  await tx`
    update mfa_guessing
    set unknown_in_a_row = 0, known_in_a_row = 0,
      forgiven_at = case when forgiven_at > ${forgivenBefore} then forgiven_at else ${now}::timestamptz end
    where user_id = ${userId}
  `;
}

export async function deleteWrongCodes(sql: Sql, failedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from mfa_failures where id in (
      select id from mfa_failures where failed_at < ${failedBefore}
      order by failed_at limit ${limit}
    )
  `;
  return result.count;
}
