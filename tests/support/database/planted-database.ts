import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import type { ServiceName } from "#deploy/service-databases.ts";
import { onOneConnection, type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type ExecutedPlan, watchPlans } from "./plans.ts";
import { createTestDatabase } from "./postgres.ts";

/** Of each table that grows with users or calls. */
export const PLANTED_ROWS = 20_000;
/** More than a page, a batch, or what one user has. */
const MAX_ROWS = 1_500;
const MAX_PAGES = 200;
/** From the sixth on a prepared statement may keep one plan for all parameters. */
const TIMES = 7;

/** The n-th id of {@link plantRows}. */
export const plantedId = (n: number) => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
/** The n-th hash of {@link plantRows}. */
export const plantedHash = (n: number) => createHash("sha256").update(String(n)).digest();

const PLANTED_ID = (n: string) => `('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;
const BY_TYPE: Record<string, string> = {
  uuid: PLANTED_ID("n"),
  bytea: "sha256(n::text::bytea)",
  text: "'text'",
  "text[]": "'{pwd}'",
  "uuid[]": `array[${PLANTED_ID("n")}]`,
  boolean: "false",
  smallint: "1",
  integer: "1",
  bigint: "n",
  jsonb: "'{}'",
  // A row a minute until now; 20 rows have ended.
  "timestamp with time zone": `now() - (${PLANTED_ROWS} - n) * interval '1 minute'`,
  "timestamp(3) with time zone": `now() - (${PLANTED_ROWS} - n) * interval '1 minute'`,
};
const BY_NAME: Record<string, string> = { expires_at: "now() + (n - 20) * interval '1 second'" };

/**
 * Fills a table without foreign keys and triggers. Columns that may be null or have a default get a value only if said.
 *
 * @param columns SQL of their values, with `n` from 1.
 */
async function plantRows(
  owner: Sql,
  table: string,
  columns: Readonly<Record<string, string>> = {},
  rows = PLANTED_ROWS,
): Promise<void> {
  const found = await owner<{ name: string; type: string; isNeeded: boolean }[]>`
    select attname as name, format_type(atttypid, atttypmod) as type, attnotnull and not atthasdef and attidentity = '' as "isNeeded"
    from pg_attribute where attrelid = ${table}::regclass and attnum > 0 and not attisdropped order by attnum`;
  const values = found.flatMap(({ name, type, isNeeded }) => {
    const value = columns[name] ?? (isNeeded ? (BY_NAME[name] ?? BY_TYPE[type]) : undefined);
    return value === undefined ? [] : [[name, value] as const];
  });
  const unknown = Object.keys(columns).filter((name) => !values.some(([column]) => column === name));
  if (unknown.length > 0) throw new Error(`${table} has no ${unknown.join(", ")}`);
  await transaction(owner, async (tx) => {
    // On Citus's nodes too. Elsewhere it has no meaning.
    await tx`set local citus.propagate_set_commands = 'local'`;
    await tx`set local session_replication_role = replica`;
    await tx.unsafe(`
      insert into ${table} (${values.map(([name]) => name).join(", ")})
      select ${values.map(([, value]) => value).join(", ")} from generate_series(1, ${rows}) as n`);
  });
}

/** What is wrong with a plan at any size. */
function offencesOf({ query, scans }: ExecutedPlan, largeTables: ReadonlySet<string>): string[] {
  return scans.flatMap(({ kind, table, index, rows, pages }) => {
    // Partitions of months to come are empty, and read whole.
    const isAll = kind === "Seq Scan" && largeTables.has(table) && pages > 0;
    // The statement says how much of the table a sample is.
    if (kind === "Sample Scan" || (!isAll && rows <= MAX_ROWS && pages <= MAX_PAGES)) return [];
    return [
      `${kind} of ${table || index}${index && table ? ` by ${index}` : ""}: ${rows} rows, ${pages} pages: ${query}`,
    ];
  });
}

/**
 * Statements of a service, by the name of the function that sends them: `selectUsers`, or `selectUsers: by status`. They get a transaction, and
 * the connection for what begins one and changes nothing.
 */
export type StoreCalls = Record<string, (tx: Sql & TransactionSql, sql: Sql) => Promise<unknown>>;

export interface PlantedDatabase {
  /**
   * Runs each call in transactions that are rolled back, as often as PostgreSQL needs to settle for a plan, and returns
   * what is wrong with any of its plans.
   *
   * @param session run-time parameters of the service's connections.
   */
  findOffences(calls: StoreCalls, session?: Readonly<Record<string, string | number>>): Promise<string[]>;
  drop(): Promise<void>;
}

type Columns = Readonly<Record<string, string>>;

/** What a planted database has. */
export interface Planted {
  /** Columns of {@link plantRows} of each table that grows. */
  large: Readonly<Record<string, Columns>>;
  /** The same of other tables. */
  small?: Readonly<Record<string, { rows: number; columns: Columns }>>;
  /** SQL, of the superuser. */
  before?: string;
  after?: string;
  /** As `after`, but the statistics know nothing of it. */
  unnoticed?: readonly string[];
}

/** A service's database in which large tables have {@link PLANTED_ROWS} rows, with exact statistics. */
export async function createPlantedDatabase(
  service: ServiceName,
  { large, small = {}, before = "", after = "", unnoticed = [] }: Planted,
): Promise<PlantedDatabase> {
  const { server, workers } = inject("postgres");
  const database = await createTestDatabase(service);
  const name = new URL(database.url).pathname.slice(1);
  const admin = connectTo(server, name);
  await admin.unsafe(before);
  for (const [table, columns] of Object.entries(large)) await plantRows(admin, table, columns);
  for (const [table, { rows, columns }] of Object.entries(small))
    await plantRows(admin, table, columns, rows);
  await admin.unsafe(after);
  // Every row is sampled: the same plans each time.
  await onOneConnection(admin, async (session) => {
    await session`set default_statistics_target = 1000`;
    await session`vacuum analyze`;
  });
  for (const statement of unnoticed) await admin.unsafe(statement);
  const [partitions] = await admin<{ names: string[] }[]>`
    select array_agg(inhrelid::regclass::text) as names from pg_inherits where inhparent::regclass::text = any(${Object.keys(large)})`;
  const largeTables = new Set([...Object.keys(large), ...(partitions?.names ?? [])]);
  await admin.end({ timeout: 1 });

  async function findOffences(calls: StoreCalls, session: Readonly<Record<string, string | number>> = {}) {
    // Citus plans on its nodes: only that it takes the statements is seen here.
    const isCluster = workers.length > 0;
    const { sql, takePlans } = isCluster
      ? { sql: connectTo(server, name), takePlans: () => [] }
      : await watchPlans(server, name, session);
    const offences: string[] = [];
    for (const [call, work] of Object.entries(calls)) {
      takePlans();
      for (let time = 0; time < TIMES; time += 1) {
        await rolledBack(sql, work).catch((error: unknown) => {
          offences.push(`${call} fails: ${error instanceof DomainError ? error.cause : error}`);
        });
      }
      const plans = takePlans();
      if (plans.length === 0 && !isCluster) throw new Error(`${call} has sent nothing`);
      const found = plans.flatMap((plan) => offencesOf(plan, largeTables)).map((text) => `${call}: ${text}`);
      offences.push(...new Set(found));
    }
    await sql.end({ timeout: 1 });
    return [...new Set(offences)];
  }
  return { findOffences, drop: () => database.drop() };
}

async function rolledBack(sql: Sql, work: StoreCalls[string]): Promise<void> {
  if (work.length === 2) {
    await work(undefined as never, sql);
    return;
  }
  const done = new Error("done");
  await transaction(sql, async (tx) => {
    await work(tx as Sql & TransactionSql, sql);
    throw done;
  }).catch((error: unknown) => {
    if (error !== done) throw error;
  });
}

/** Functions of the stores in a folder that read, change or delete rows: all that a plan can be wrong for. */
export async function storeFunctions(folder: string): Promise<string[]> {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith("-store.ts"),
  );
  const modules: Record<string, unknown>[] = await Promise.all(
    files.map((path) => import(join(folder, path))),
  );
  return modules
    .flatMap((module) => Object.entries(module))
    .filter(
      ([, value]) => typeof value === "function" && /\b(select|update|delete from)\b/.test(String(value)),
    )
    .map(([name]) => name)
    .sort();
}
