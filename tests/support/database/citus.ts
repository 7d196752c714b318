import type { PostgresServer } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo } from "#deploy/local/postgres/ensure-database.ts";
import type { ServiceDatabase } from "#deploy/service-databases.ts";
import type { Sql } from "#kit/database/postgres.ts";
import type { TestPostgres } from "./postgres-template.ts";

/** Of all tables of a service: Citus keeps them on one node. */
const SCHEMA = "part0";

/** The servers with a part of this database, the coordinator first. The audit log is kept on one: it looks at the locks of its writers. */
export function nodesOf({ server, workers }: TestPostgres, { service }: ServiceDatabase): PostgresServer[] {
  if (service === "audit-service") return [server];
  return [server, ...workers.map((port) => ({ ...server, port }))];
}

/** Runs it on each of the servers, one after the other. */
export async function onEach(
  nodes: readonly PostgresServer[],
  database: string,
  work: (admin: Sql, node: PostgresServer) => Promise<unknown>,
): Promise<void> {
  for (const node of nodes) {
    const admin = connectTo(node, database);
    await work(admin, node).finally(() => admin.end({ timeout: 1 }));
  }
}

/** Before the migrations: an empty database that Citus spreads over the nodes, which must trust each other. */
export async function createOnNodes(nodes: readonly PostgresServer[], name: string, wanted: ServiceDatabase) {
  await onEach(nodes, "postgres", async (admin) => {
    for (const role of [wanted.ownerRole, wanted.serviceRole]) {
      const [existing] = await admin`select 1 from pg_roles where rolname = ${role}`;
      if (!existing) await admin.unsafe(`create role ${role} login`);
    }
    await admin.unsafe(`create database ${name} owner ${wanted.ownerRole} template template0`);
  });
  await onEach(nodes, name, (admin) => admin.unsafe("create extension citus"));
  await onEach(nodes.slice(0, 1), name, async (admin, { host, port }) => {
    await admin`select citus_set_coordinator_host(${host}, ${port})`;
    for (const worker of nodes.slice(1)) await admin`select citus_add_node(${host}, ${worker.port})`;
  });
}

/** After the migrations. Nobody may connect to it then, not even Citus's daemon: it is a template. */
export async function distribute(nodes: readonly PostgresServer[], name: string, wanted: ServiceDatabase) {
  await onEach(nodes.slice(0, 1), name, async (admin) => {
    await admin.unsafe(`create schema ${SCHEMA} authorization ${wanted.ownerRole}`);
    await admin.unsafe(`grant usage on schema ${SCHEMA} to ${wanted.serviceRole}`);
    const tables = await admin<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_migrations'`;
    for (const table of tables) await admin.unsafe(`alter table ${table.name} set schema ${SCHEMA}`);
    await admin.unsafe(`set citus.enable_unsafe_triggers = on; select citus_schema_distribute('${SCHEMA}')`);
  });
  await onEach(nodes, "postgres", async (admin) => {
    await admin.unsafe(`alter database ${name} with allow_connections false`);
    await admin`select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = ${name}`;
  });
}

/** A copied database does not inherit this. */
export async function findSchema(admin: Sql, name: string): Promise<void> {
  await admin.unsafe(`alter database ${name} set search_path = ${SCHEMA}, public`);
}
