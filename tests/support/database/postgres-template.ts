import type { PostgresServer } from "#deploy/local/postgres/embedded-postgres.ts";

/** What tests need to make databases of their own; handed from the global set-up to the test workers. */
export interface TestPostgres {
  server: PostgresServer;
  /** Ports of Citus's workers on the same host, if the server is their coordinator. */
  workers: readonly number[];
  /** Part of the name of every database of this test run, so that runs may share a server. */
  run: string;
  /** Passwords of the roles, by role. */
  passwords: Record<string, string>;
}

declare module "vitest" {
  interface ProvidedContext {
    postgres: TestPostgres;
  }
}

/** Name of the database that a service's test databases are copies of. */
export function templateName(database: string, run: string): string {
  return `template_${database}_${run}`;
}
