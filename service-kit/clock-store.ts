import type { Sql } from "./postgres.ts";

export async function readDatabaseClock(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  if (row === undefined) throw new Error("the database did not say what time it is");
  return row.now;
}
