import { type Claim, claimDue } from "#kit/database/outbox-store.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface ClientEnd {
  id: string;
  /** 1 to 20. */
  credentialIds: string[];
  createdAt: Date;
}

export async function insertClientEnd(
  tx: TransactionSql,
  { id, credentialIds, createdAt }: ClientEnd,
  firstAttemptAt: Date,
): Promise<void> {
  await tx`
    insert into client_ends (id, credential_ids, created_at, next_attempt_at)
    values (${id}, ${credentialIds}, ${createdAt}, ${firstAttemptAt})
  `;
}

export function claimClientEnds(sql: Sql, claim: Claim): Promise<ClientEnd[]> {
  const table = {
    name: "client_ends",
    waiting: sql`true`,
    columns: sql`claimed.id, credential_ids as "credentialIds", created_at as "createdAt"`,
  };
  return claimDue<ClientEnd>(sql, table, claim);
}

export async function deleteClientEnd(sql: Sql, id: string): Promise<void> {
  await sql`delete from client_ends where id = ${id}`;
}

/** Stops at 10,000, because it runs every second. */
export async function countClientEnds(sql: Sql): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from (select from client_ends limit 10000) as waiting`;
  return row?.count ?? 0;
}
