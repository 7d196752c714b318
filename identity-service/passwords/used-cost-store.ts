import type { Sql } from "#kit/database/postgres.ts";
import { knownCost, type UsedCost } from "./dummy-cost.ts";

const SAMPLE_ROWS = 10_000;
const MAX_KINDS = 16;
/** All before the salt, but a pepper's `keyid`. */
const COST =
  "^(?:\\$2[aby]\\$[0-9]{2}|\\$[a-z0-9-]+(?:\\$v=19)?\\$[a-z]{1,2}=[0-9]{1,8}(?:,[a-z]{1,2}=[0-9]{1,8}){0,3})";

/** From a sample of about 10,000 accounts. */
export async function sampleUsedCosts(sql: Sql): Promise<UsedCost[]> {
  const [table] = await sql<{ rows: number }[]>`
    select greatest(reltuples, 0)::float8 as rows from pg_class where oid = 'users'::regclass
  `;
  const percent = Math.min(100, (100 * SAMPLE_ROWS) / Math.max(1, table?.rows ?? 0));
  // Citus takes no parameter as the percentage, and on its coordinator the table seems empty.
  const rows = await sql<UsedCost[]>`
    select cost, count(*)::int as count
    from (
      select substring(password_hash from ${COST}) as cost
      from users tablesample system (${sql.unsafe(String(percent))})
      where password_hash is not null
      limit ${2 * SAMPLE_ROWS}
    ) as sample
    where cost is not null
    group by cost order by count(*) desc limit ${MAX_KINDS}
  `;
  return rows.flatMap(({ cost, count }) => {
    const known = knownCost(cost);
    return known === undefined ? [] : [{ cost: known, count }];
  });
}
