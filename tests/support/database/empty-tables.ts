import type { Sql } from "#kit/database/postgres.ts";

/** Deletes all rows, and by their foreign keys the rows of other tables. A `truncate` takes 50 times as long: it makes new files. */
export async function emptyTables(ownerSql: Sql, ...tables: string[]): Promise<void> {
  await ownerSql.unsafe(tables.map((table) => `delete from ${table}`).join(";"));
}
