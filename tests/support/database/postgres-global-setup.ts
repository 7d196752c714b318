import { createHmac, randomBytes } from "node:crypto";
import { resolve } from "node:path";
import type { TestProject } from "vitest/node";
import type { PostgresServer } from "#deploy/local/postgres/embedded-postgres.ts";
import { connectTo, ensureDatabase } from "#deploy/local/postgres/ensure-database.ts";
import { databaseOf, SERVICE_DATABASES } from "#deploy/service-databases.ts";
import { createOnNodes, distribute, nodesOf, onEach } from "./citus.ts";
import { type TestPostgres, templateName } from "./postgres-template.ts";
import { chooseServer } from "./postgres-test-server.ts";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");

/**
 * Vitest's global setup: PostgreSQL for the tests, with a migrated template database for each service. The server is
 * the one of `TEST_DATABASE_URL` (a superuser's), otherwise an embedded one that ends with the tests. With
 * `TEST_INFRA=containers` it is a container, and so is a Redis. With `TEST_CITUS_WORKERS` (ports, such as `5601 5602`) the
 * server is the coordinator of a Citus cluster, and the tables of identity-service and token-service are in a distributed schema.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const testServer = await chooseServer(process.env);
  const { server } = testServer;
  const workers = (process.env.TEST_CITUS_WORKERS ?? "").split(" ").filter(Boolean).map(Number);
  const run = randomBytes(4).toString("hex");
  const test: TestPostgres = { server, workers, run, passwords: rolePasswords(server) };
  const teardown = async () => {
    if (testServer.shared) await dropDatabases(test);
    await testServer.stop();
  };
  try {
    await makeTemplates(test);
  } catch (error) {
    await teardown();
    throw error;
  }
  project.provide("postgres", test);
  return teardown;
}

/** Roles belong to the server, not to a run: runs that share it must agree on the passwords without talking. */
function rolePasswords(server: PostgresServer): Record<string, string> {
  const roles = SERVICE_DATABASES.flatMap(({ ownerRole, serviceRole }) => [ownerRole, serviceRole]);
  return Object.fromEntries(
    roles.map((role) => [role, createHmac("sha256", server.password).update(role).digest("base64url")]),
  );
}

async function makeTemplates(test: TestPostgres): Promise<void> {
  const { server, run, passwords } = test;
  // Roles are changed on all nodes then, which PostgreSQL cannot do concurrently.
  const onCluster = async (work: typeof distribute) => {
    for (const wanted of SERVICE_DATABASES) {
      const nodes = nodesOf(test, wanted);
      if (nodes.length > 1) await work(nodes, templateName(wanted.database, run), wanted);
    }
  };
  await onCluster(createOnNodes);
  const admin = connectTo(server, "postgres");
  try {
    await Promise.all(
      SERVICE_DATABASES.map(async (wanted) => {
        const { [wanted.ownerRole]: owner = "", [wanted.serviceRole]: service = "" } = passwords;
        const name = templateName(wanted.database, run);
        await ensureDatabase({ admin, server, wanted, name, passwords: { owner, service }, root: ROOT });
      }),
    );
    await onCluster(distribute);
  } finally {
    await admin.end({ timeout: 1 });
  }
}

/** On a server that stays, also what tests have not dropped themselves. The roles stay: other runs use them. */
async function dropDatabases(test: TestPostgres): Promise<void> {
  await onEach(nodesOf(test, databaseOf("token-service")), "postgres", async (admin) => {
    const rows = await admin<{ name: string }[]>`
      select datname as name from pg_database where datname like ${`%\\_${test.run}%`}
    `;
    for (const { name } of rows) await admin.unsafe(`drop database if exists ${name} with (force)`);
  });
}
