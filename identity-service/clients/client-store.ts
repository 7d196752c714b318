import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export type ClientStatus = "active" | "disabled";

/** An account of a program. */
export interface MachineClient {
  id: string;
  name: string;
  /** Null if that account is gone. */
  ownerId: string | null;
  permissions: string[];
  status: ClientStatus;
  createdAt: Date;
  changedAt: Date;
}

const columns = (sql: Sql | TransactionSql) => sql`
  id, name, owner_id as "ownerId", permissions, status, created_at as "createdAt", changed_at as "changedAt"
`;

/** An owner who may not log in answers for nothing. */
const hasOwner = (sql: Sql) => sql`
  exists (select from users where users.id = clients.owner_id and users.status = 'active')
`;

export async function insertClient(tx: TransactionSql, client: MachineClient): Promise<void> {
  await tx`
    insert into clients (id, name, owner_id, permissions, status, created_at, changed_at)
    values (${client.id}, ${client.name}, ${client.ownerId}, ${client.permissions}, ${client.status},
            ${client.createdAt}, ${client.changedAt})
  `;
}

export async function findClient(sql: Sql, clientId: string): Promise<MachineClient | undefined> {
  const [row] = await sql<MachineClient[]>`select ${columns(sql)} from clients where id = ${clientId}`;
  return row;
}

/** @returns ids of those that are active and hold the permission. */
export async function selectClientsWith(
  sql: Sql,
  clientIds: readonly string[],
  permission: string,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from clients
    where id = any(${clientIds as string[]}::uuid[]) and status = 'active' and ${permission} = any(permissions)
  `;
  return rows.map(({ id }) => id);
}

export async function lockClient(tx: TransactionSql, clientId: string): Promise<MachineClient | undefined> {
  const [row] = await tx<MachineClient[]>`
    select ${columns(tx)} from clients where id = ${clientId} for no key update
  `;
  return row;
}

/** Newest first. @param filter.before an id. */
export async function selectClients(
  sql: Sql,
  filter: { ownerId?: string | undefined; isOwnerless: boolean; before?: string | undefined; limit: number },
): Promise<MachineClient[]> {
  const { ownerId, isOwnerless, before, limit } = filter;
  return sql<MachineClient[]>`
    select ${columns(sql)} from clients
    where true
      ${before === undefined ? sql`` : sql`and id < ${before}`}
      ${ownerId === undefined ? sql`` : sql`and owner_id = ${ownerId}`}
      ${isOwnerless ? sql`and not ${hasOwner(sql)}` : sql``}
    order by id desc limit ${limit}
  `;
}

/** Newest first. None is added meanwhile: requires the owner's lock. */
export async function lockOwnedClients(
  tx: TransactionSql,
  ownerId: string,
  limit: number,
): Promise<MachineClient[]> {
  return tx<MachineClient[]>`
    select ${columns(tx)} from clients where owner_id = ${ownerId} and status = 'active'
    order by id desc limit ${limit} for no key update
  `;
}

/** Requires the client's lock. */
export async function updateClient(
  tx: TransactionSql,
  { id, name, ownerId, permissions, status, changedAt }: MachineClient,
): Promise<void> {
  await tx`
    update clients
    set name = ${name}, owner_id = ${ownerId}, permissions = ${permissions}, status = ${status},
        changed_at = greatest(changed_at, ${changedAt})
    where id = ${id}
  `;
}

/** Requires the client's lock. */
export async function touchClient(tx: TransactionSql, clientId: string, at: Date): Promise<void> {
  await tx`update clients set changed_at = greatest(changed_at, ${at}) where id = ${clientId}`;
}

export async function deleteClientRow(tx: TransactionSql, clientId: string): Promise<void> {
  await tx`delete from clients where id = ${clientId}`;
}

/** Stays active until the transaction ends. */
export async function lockActiveOwner(tx: TransactionSql, userId: string): Promise<boolean> {
  const rows = await tx`select from users where id = ${userId} and status = 'active' for key share`;
  return rows.length > 0;
}

/** Active ones. Stops at 10,000. */
export async function countOwnerless(sql: Sql): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (select from clients where status = 'active' and not ${hasOwner(sql)} limit 10000) as found
  `;
  return row?.count ?? 0;
}
