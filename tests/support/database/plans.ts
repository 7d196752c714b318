import type { PostgresServer } from "#deploy/local/postgres/embedded-postgres.ts";
import { databaseUrl } from "#deploy/local/postgres/ensure-database.ts";
import { openPool, type Sql } from "#kit/database/postgres.ts";

/** One scan of a table or an index, as it was executed. */
interface Scan {
  /** `Seq Scan`, `Index Scan`, `Bitmap Index Scan`, … */
  kind: string;
  /** Empty for a bitmap's index. */
  table: string;
  index: string;
  /** Rows or index entries that it looked at, those that a filter has thrown away included. */
  rows: number;
  /** Pages, read or found in memory. */
  pages: number;
}

export interface ExecutedPlan {
  query: string;
  scans: Scan[];
  pages: number;
  rows: number;
}

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows"?: number;
  "Actual Loops"?: number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  Plans?: PlanNode[];
}

const SETTINGS = {
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_buffers": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_format": "json",
  "auto_explain.log_level": "notice",
  client_min_messages: "notice",
};

/**
 * One connection of the superuser that keeps the plan of each statement as it was executed, with those of triggers, foreign keys and functions.
 *
 * @param session run-time parameters of the service's connections.
 */
export async function watchPlans(
  { host, port, username, password }: PostgresServer,
  database: string,
  session: Readonly<Record<string, string | number>> = {},
): Promise<{ sql: Sql; takePlans(): ExecutedPlan[] }> {
  let plans: ExecutedPlan[] = [];
  const sql = openPool({
    url: databaseUrl({ host, port }, username, database),
    maxConnections: 1,
    connectTimeoutMs: 10_000,
    maxWaitMs: 60_000,
    maxWaiting: 10_000,
    driver: {
      password,
      connection: { jit: "off", ...session },
      onnotice: ({ message = "" }) => {
        const text = /^duration: [\d.]+ ms +plan:\n(.*)$/s.exec(message)?.[1];
        if (text !== undefined) plans.push(toPlan(JSON.parse(text)));
      },
    },
  });
  await sql.unsafe("load 'auto_explain'");
  for (const [name, value] of Object.entries(SETTINGS)) await sql.unsafe(`set ${name} = '${value}'`);
  const takePlans = () => {
    const taken = plans;
    plans = [];
    return taken;
  };
  takePlans();
  return { sql, takePlans };
}

function toPlan(explained: { "Query Text": string; Plan: PlanNode }): ExecutedPlan {
  const scans: Scan[] = [];
  collect(explained.Plan, scans);
  return {
    query: explained["Query Text"].replaceAll(/\s+/g, " ").trim(),
    scans,
    pages: pagesOf(explained.Plan),
    rows: scans.reduce((sum, { rows }) => sum + rows, 0),
  };
}

function collect(node: PlanNode, into: Scan[]): void {
  const { "Node Type": kind, "Relation Name": table = "", "Index Name": index = "", Plans = [] } = node;
  if (kind.endsWith("Scan") && (table !== "" || index !== "")) {
    const rows =
      (node["Actual Rows"] ?? 0) +
      (node["Rows Removed by Filter"] ?? 0) +
      (node["Rows Removed by Index Recheck"] ?? 0);
    into.push({
      ...{ kind, table, index },
      rows: Math.round(rows * (node["Actual Loops"] ?? 1)),
      pages: pagesOf(node),
    });
  }
  for (const child of Plans) collect(child, into);
}

function pagesOf(node: PlanNode): number {
  return (node["Shared Hit Blocks"] ?? 0) + (node["Shared Read Blocks"] ?? 0);
}
