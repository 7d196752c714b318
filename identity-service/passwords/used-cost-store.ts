import type { Sql } from "../../service-kit/postgres.ts";
import type { UsedCost } from "./dummy-cost.ts";
import { ARGON2_CEILING, type Argon2Parameters } from "./stored-hash.ts";

const SAMPLE_ROWS = 10_000;
const MAX_KINDS = 16;
const COSTS = "^\\$argon2id\\$v=19\\$([mtp]=[0-9]{1,6},[mtp]=[0-9]{1,6},[mtp]=[0-9]{1,6})";

/** From a sample of about 10,000 accounts. */
export async function sampleUsedCosts(sql: Sql): Promise<UsedCost[]> {
  const [table] = await sql<{ rows: number }[]>`
    select greatest(reltuples, 0)::float8 as rows from pg_class where oid = 'users'::regclass
  `;
  const percent = Math.min(100, (100 * SAMPLE_ROWS) / Math.max(1, table?.rows ?? 0));
  const rows = await sql<{ costs: string; count: number }[]>`
    select costs, count(*)::int as count
    from (
      select substring(password_hash from ${COSTS}) as costs
      from users tablesample system (${percent}::real)
      where password_hash is not null
    ) as sample
    where costs is not null
    group by costs order by count(*) desc limit ${MAX_KINDS}
  `;
  return rows.flatMap(({ costs, count }) => {
    const parameters = parametersOf(costs);
    return parameters === undefined ? [] : [{ ...parameters, count }];
  });
}

function parametersOf(costs: string): Argon2Parameters | undefined {
  const numbers = new Map(costs.split(",").map((cost) => [cost[0], Number(cost.slice(2))]));
  const [memoryKib, iterations, parallelism] = ["m", "t", "p"].map((name) => numbers.get(name));
  if (!memoryKib || !iterations || !parallelism) return undefined;
  const isWithinBounds =
    memoryKib >= 8 * parallelism &&
    memoryKib <= ARGON2_CEILING.memoryKib &&
    iterations <= ARGON2_CEILING.iterations &&
    parallelism <= ARGON2_CEILING.parallelism;
  return isWithinBounds ? { memoryKib, iterations, parallelism } : undefined;
}
