import type { Sql, TransactionSql } from "../service-kit/postgres.ts";

/** One entry of the revocation log. */
export type Revocation = { sequence: number; expiresAt: Date } & (
  | { sessionId: string; keyId: null }
  | { sessionId: null; keyId: string }
);

type Target = { sessionId: string } | { keyId: string };

/**
 * Appends to the log. The head's row stays locked until the commit, which makes the numbers gapless and their
 * order the order of commits; take every other lock before.
 *
 * @param expiresAt when every token that the targets speak of has expired.
 * @returns the number of the last one.
 */
export async function appendRevocations(
  tx: TransactionSql,
  targets: readonly Target[],
  expiresAt: Date,
): Promise<number> {
  const [head] = await tx<{ sequence: string }[]>`
    update revocation_head set sequence = sequence + ${targets.length} returning sequence
  `;
  const last = Number(head?.sequence);
  if (targets.length === 0) return last;
  const rows = targets.map((target, index) => ({
    sequence: last - targets.length + 1 + index,
    session_id: "sessionId" in target ? target.sessionId : null,
    key_id: "keyId" in target ? target.keyId : null,
    expires_at: expiresAt,
  }));
  await tx`insert into revocations ${tx(rows)}`;
  return last;
}

/** The log's head, and every unexpired entry after `afterSequence` in order, as one snapshot. */
export async function readRevocations(
  sql: Sql,
  afterSequence: number,
  now: Date,
): Promise<{ head: number; revocations: Revocation[] }> {
  const rows = await sql<({ head: string; sequence: string | null } & Omit<Revocation, "sequence">)[]>`
    select h.sequence as head, r.sequence, r.session_id as "sessionId", r.key_id as "keyId",
           r.expires_at as "expiresAt"
    from revocation_head as h
    left join revocations as r on r.sequence > ${afterSequence} and r.expires_at > ${now}
    order by r.sequence
  `;
  const head = Number(rows[0]?.head);
  const revocations = rows.flatMap((row) =>
    row.sequence === null ? [] : [{ ...row, sequence: Number(row.sequence) } as Revocation],
  );
  return { head, revocations };
}

/** Forgets what no token can match any more. @returns how many. */
export async function deleteExpiredRevocations(sql: Sql, moment: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from revocations where sequence in (
      select sequence from revocations where expires_at < ${moment} order by sequence limit ${limit}
    )
  `;
  return result.count;
}
