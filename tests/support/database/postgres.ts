import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { closeToOthers, connectTo } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf, type ServiceDatabase, type ServiceName } from "#deploy/service-databases.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { findSchema, nodesOf, onEach } from "./citus.ts";
import { type TestPostgres, templateName } from "./postgres-template.ts";

/** A database of its own for one test file: a copy of the service's migrated template. */
export interface TestDatabase {
  /** `postgres://role@host:port/database` of the service's role, without the password, as the services take it. */
  url: string;
  password: string;
  /** As the service connects: without rights beyond its own. */
  sql: Sql;
  /** As the schema's owner: to look at, or set up, what the service itself may not touch. */
  ownerSql: Sql;
  /** A backup: another database with what this one holds now. Its connections are cut for it; clients make new ones. */
  backUp(): Promise<TestDatabase>;
  /** Number of its connections that wait for a lock. */
  waitingForLocks(): Promise<number>;
  /** Closes both connections and removes the database. */
  drop(): Promise<void>;
}

/**
 * Makes a database with a service's schema, in about 30 ms. Call `drop` after the tests.
 *
 * @throws if `postgres-global-setup.ts` is not among vitest's global set-ups.
 */
export async function createTestDatabase(service: ServiceName): Promise<TestDatabase> {
  const test = inject("postgres");
  const wanted = databaseOf(service);
  return copyOf(test, wanted, templateName(wanted.database, test.run));
}

/** A part of the users that has none yet, as a migration makes it. */
export async function createPartDatabase(number: number): Promise<TestDatabase> {
  const database = await createTestDatabase("token-service");
  await database.ownerSql`update part set number = ${number}`;
  await database.ownerSql`update slots set state = 'away'`;
  return database;
}

async function copyOf(test: TestPostgres, wanted: ServiceDatabase, source: string): Promise<TestDatabase> {
  const name = `test_${wanted.database}_${test.run}_${randomBytes(4).toString("hex")}`;
  const nodes = nodesOf(test, wanted);
  await onEach(nodes, "postgres", async (admin) => {
    await admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${source}`;
    await admin.unsafe(`create database ${name} owner ${wanted.ownerRole} template ${source}`);
    if (nodes.length > 1) await findSchema(admin, name);
    await closeToOthers(admin, name, wanted);
  });

  const credentials = login(test, wanted.serviceRole);
  const sql = connectTo(test.server, name, credentials);
  const ownerSql = connectTo(test.server, name, login(test, wanted.ownerRole));
  const drop = async () => {
    await Promise.all([sql.end({ timeout: 1 }), ownerSql.end({ timeout: 1 })]);
    await onEach(nodes, "postgres", (admin) => admin.unsafe(`drop database if exists ${name} with (force)`));
  };
  const waitingForLocks = async () => {
    let waiting = 0;
    await onEach(nodes, name, async (admin) => {
      const [row] = await admin<{ count: number }[]>`
        select count(*)::integer as count from pg_locks join pg_stat_activity using (pid)
        where datname = current_database() and not granted`;
      waiting += row?.count ?? 0;
    });
    return waiting;
  };
  const backUp = async () => {
    // Citus's daemon would come back before the copy begins.
    const close = (isClosed: boolean) =>
      onEach(nodes.length > 1 ? nodes : [], "postgres", (admin) =>
        admin.unsafe(`alter database ${name} with allow_connections ${!isClosed}`),
      );
    await close(true);
    return copyOf(test, wanted, name).finally(() => close(false));
  };
  return {
    url: serviceUrl(test, wanted, name),
    password: credentials.password,
    sql,
    ownerSql,
    backUp,
    waitingForLocks,
    drop,
  };
}

function serviceUrl({ server }: TestPostgres, { serviceRole }: ServiceDatabase, name: string): string {
  const host = server.host.includes(":") ? `[${server.host}]` : server.host;
  return `postgres://${serviceRole}@${host}:${server.port}/${name}`;
}

function login({ passwords }: TestPostgres, role: string): { username: string; password: string } {
  return { username: role, password: passwords[role] ?? "" };
}
