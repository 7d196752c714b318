import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

/** Says which file is read, and how. */
export interface ImportKey {
  /** SHA-256. */
  fileSha256: Buffer;
  source: string;
  settings: string;
}

export interface Import extends Pick<ImportKey, "fileSha256" | "source"> {
  id: string;
  /** From 1. All rows before it are stored. */
  nextRow: number;
  imported: number;
  /** Null while it runs. */
  completedAt: Date | null;
}

export interface ImportBatch {
  firstRow: number;
  /** Of each row. Empty: it was imported. */
  refusals: string[];
  /** Of the rows that were imported. */
  userIds: string[];
}

const columns = (sql: Sql | TransactionSql) => sql`
  id, file_sha256 as "fileSha256", source, next_row as "nextRow", imported, completed_at as "completedAt"
`;

/** Undefined if there is one. */
export async function insertImport(
  tx: TransactionSql,
  { fileSha256, source, settings }: ImportKey,
  { id, startedAt }: { id: string; startedAt: Date },
): Promise<Import | undefined> {
  const [row] = await tx<Import[]>`
    insert into imports (id, file_sha256, source, settings, started_at)
    values (${id}, ${fileSha256}, ${source}, ${settings}, ${startedAt})
    on conflict do nothing returning ${columns(tx)}
  `;
  return row;
}

export async function findImportByKey(
  tx: TransactionSql,
  { fileSha256, source, settings }: ImportKey,
): Promise<Import | undefined> {
  const [row] = await tx<Import[]>`
    select ${columns(tx)} from imports
    where file_sha256 = ${fileSha256} and source = ${source} and settings = ${settings}
  `;
  return row;
}

export async function findImport(sql: Sql, id: string): Promise<Import | undefined> {
  const [row] = await sql<Import[]>`select ${columns(sql)} from imports where id = ${id}`;
  return row;
}

export async function lockImport(tx: TransactionSql, id: string): Promise<Import | undefined> {
  const [row] = await tx<Import[]>`select ${columns(tx)} from imports where id = ${id} for no key update`;
  return row;
}

/** Requires the lock. */
export async function insertBatch(tx: TransactionSql, importId: string, batch: ImportBatch): Promise<void> {
  const { firstRow, userIds, refusals } = batch;
  await tx`
    insert into import_batches (import_id, first_row, user_ids, refusals)
    values (${importId}, ${firstRow}, ${userIds}::uuid[], ${refusals}::text[])
  `;
  await tx`
    update imports set next_row = ${firstRow + refusals.length}, imported = imported + ${userIds.length} where id = ${importId}
  `;
}

/** Requires the lock. */
export async function endImport(tx: TransactionSql, id: string, at: Date): Promise<void> {
  await tx`update imports set completed_at = ${at} where id = ${id}`;
}

/** From the batch with this row on. */
export async function selectBatches(
  sql: Sql,
  { importId, firstRow, limit }: { importId: string; firstRow: number; limit: number },
): Promise<ImportBatch[]> {
  return sql<ImportBatch[]>`
    select first_row as "firstRow", user_ids as "userIds", refusals from import_batches
    where import_id = ${importId} and first_row >= ${firstRow} order by first_row limit ${limit}
  `;
}

export async function deleteImportsBefore(sql: Sql, moment: Date): Promise<void> {
  await sql`delete from imports where started_at < ${moment}`;
}
