import { readFileSync } from "node:fs";
import postgres from "postgres";
import type { Secret } from "./config.ts";
import { DomainError } from "./errors.ts";
import type { Logger } from "./logger.ts";

export type Sql = postgres.Sql;
/** As a parameter type it says: only inside a transaction. */
export type TransactionSql = postgres.TransactionSql;

export interface DatabaseConfig {
  DATABASE_URL: string;
  DATABASE_PASSWORD_FILE: Secret<string>;
  DATABASE_CA_FILE?: string | undefined;
  DATABASE_POOL_SIZE: number;
}

const CONNECT_TIMEOUT_S = 2;
const CONNECTION_LIFETIME_S = 30 * 60;

/** A pool of connections. Connects when first used; every statement, lock and idle transaction has a time-out. */
export function connectPostgres(config: DatabaseConfig, name: string, logger: Logger): Sql {
  return postgres(config.DATABASE_URL, {
    password: config.DATABASE_PASSWORD_FILE.reveal(),
    max: config.DATABASE_POOL_SIZE,
    connect_timeout: CONNECT_TIMEOUT_S,
    max_lifetime: CONNECTION_LIFETIME_S,
    backoff: (attempt) => Math.min(0.05 * 2 ** attempt, 1),
    ssl:
      config.DATABASE_CA_FILE === undefined
        ? false
        : { ca: readFileSync(config.DATABASE_CA_FILE), rejectUnauthorized: true },
    connection: {
      application_name: name,
      statement_timeout: 2_000,
      lock_timeout: 1_000,
      idle_in_transaction_session_timeout: 5_000,
    },
    onnotice: (notice) => logger.debug({ notice: notice.message }, "database notice"),
  });
}

/** SQLSTATE classes and driver codes that say "not now" rather than "wrong". */
const UNAVAILABLE =
  /^(08...|53...|57P0.|57014|55P03|40001|40P01|25006|CONNECTION_.*|CONNECT_TIMEOUT|E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NOTFOUND|AI_AGAIN))$/;

/**
 * Gives a failure of the database the name the caller can handle.
 *
 * @throws {DomainError} `service_unavailable` if the database is away, overloaded or timed out; everything
 *   else as it came.
 */
export async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (isUnavailable(error)) {
      throw new DomainError("service_unavailable", undefined, { cause: error, retryAfterMs: 1_000 });
    }
    throw error;
  }
}

export function isUnavailable(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && UNAVAILABLE.test(code);
}

/** True for a violated unique constraint of this name (SQLSTATE 23505). */
export function isUniqueViolation(error: unknown, constraint: string): boolean {
  const failure = error as { code?: unknown; constraint_name?: unknown } | null;
  return failure?.code === "23505" && failure.constraint_name === constraint;
}
