import type { Sql } from "./postgres.ts";

export async function readDatabaseClock(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  if (row === undefined) throw new Error("the database returned no time");
  return row.now;
}
