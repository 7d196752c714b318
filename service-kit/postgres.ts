import { readFileSync } from "node:fs";
import type postgres from "postgres";
import type { Secret } from "./config.ts";
import {
  ConnectionPool,
  type ConnectionPoolOptions,
  createDriver,
  type DriverQuery,
  type Handler,
  handlerOf,
  type PooledConnection,
} from "./connection-pool.ts";
import { nameFailures } from "./database-failure.ts";
import type { Logger } from "./logger.ts";

/**
 * Statements outside of a transaction: each has a connection of the pool for itself. They, `transaction` and
 * `onOneConnection` fail with the `DomainError` `service_unavailable` if the database is away, overloaded or does not
 * answer in time; its `cause` is the error of the driver. Every other error is the driver's own.
 */
export interface Sql extends postgres.ISql {
  readonly pool: ConnectionPool;
  readonly answerTimeoutMs: number | undefined;
  /** Lets what is under way end for `timeout` seconds (5 if absent), then cuts it. */
  end(options?: { timeout?: number }): Promise<void>;
}

/** Statements of one connection, one after the other. */
export type Session = postgres.ISql;

/** As a parameter type it says: only inside a transaction. */
export type TransactionSql = postgres.TransactionSql;

export interface DatabaseConfig {
  DATABASE_URL: string;
  DATABASE_PASSWORD_FILE: Secret<string>;
  DATABASE_CA_FILE?: string | undefined;
  DATABASE_POOL_SIZE: number;
}

const CONNECT_TIMEOUT_MS = 2_000;
const CONNECTION_LIFETIME_MS = 30 * 60_000;
const IDLE_TIMEOUT_MS = 10_000;
/**
 * A server that lives says something within `statement_timeout`, and a connection that idles is closed before: silence
 * for this long is a connection whose other end is gone.
 */
const SILENT_CONNECTION_MS = 15_000;
const STATEMENT_TIMEOUT_MS = 2_000;
/** Added to what a statement may take at the server, for when no server answers. */
const ANSWER_GRACE_MS = 500;
const MAX_WAIT_MS = 2_000;
/** Statements take a few milliseconds: who is further back in the queue would not be served in time. */
const MAX_WAITING_PER_CONNECTION = 100;
const END_TIMEOUT_S = 5;

/**
 * A pool of connections. Connects when first used; every statement, lock, idle transaction and wait for a connection
 * has a time-out. A connection that is lost fails what was under way on it, and nothing else.
 *
 * @param session more run-time parameters of every connection.
 */
export function connectPostgres(
  config: DatabaseConfig,
  name: string,
  logger: Logger,
  session: Readonly<Record<string, string | number>> = {},
): Sql {
  const connection = {
    application_name: name,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: 1_000,
    idle_in_transaction_session_timeout: 5_000,
    ...session,
  };
  return openPool({
    url: config.DATABASE_URL,
    ca: config.DATABASE_CA_FILE === undefined ? undefined : readFileSync(config.DATABASE_CA_FILE),
    maxConnections: config.DATABASE_POOL_SIZE,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    maxSilenceMs: SILENT_CONNECTION_MS,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    lifetimeMs: CONNECTION_LIFETIME_MS,
    maxWaitMs: MAX_WAIT_MS,
    maxWaiting: MAX_WAITING_PER_CONNECTION * config.DATABASE_POOL_SIZE,
    answerTimeoutMs: Number(connection.statement_timeout) + ANSWER_GRACE_MS,
    driver: {
      password: config.DATABASE_PASSWORD_FILE.reveal(),
      connection,
      onnotice: (notice) => logger.debug({ notice: notice.message }, "database notice"),
    },
  });
}

export interface PoolOptions extends ConnectionPoolOptions {
  /** How long a statement or a transaction may take, the wait for a connection included. No limit if absent. */
  answerTimeoutMs?: number;
}

/** A pool with limits of its own. Services use `connectPostgres`. */
export function openPool(options: PoolOptions): Sql {
  const { answerTimeoutMs } = options;
  const pool = new ConnectionPool(options);
  const builder = createDriver(options); // makes statements and their parts; never connects
  const run: Handler = (query) => {
    const { resolve, reject } = query;
    const work = pool.hold((connection) => runOn(connection, query));
    nameFailures(work, answerTimeoutMs).then(resolve, reject);
  };
  return Object.assign(redirected(builder, run), {
    pool,
    answerTimeoutMs,
    end: ({ timeout = END_TIMEOUT_S } = {}) => pool.end(timeout * 1_000),
  }) as Sql;
}

/**
 * Does work in a transaction: commits what it did, or rolls it back when it throws.
 *
 * @param work must send its statements through what it is given. Statements after the connection was lost fail. Their
 *   errors are the driver's own.
 * @throws what the work threw; {DomainError} `service_unavailable` if the connection was lost, if there was none in
 *   time (then nothing was sent), or if the work has not ended in time (it goes on). A commit under way may have happened.
 */
export function transaction<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  // The cast undoes the driver's unwrapping of arrays of promises, which work never returns.
  const done = sql.pool.hold((connection) =>
    connection.driver.begin((tx) => unlessLost(connection, tx, work)),
  ) as Promise<T>;
  return nameFailures(done, sql.answerTimeoutMs);
}

/** Uses one connection alone, for as long as it takes, for what belongs to a session: its settings and its locks. */
export function onOneConnection<T>(sql: Sql, work: (session: Session) => Promise<T>): Promise<T> {
  return nameFailures(
    sql.pool.hold((connection) => work(checked(connection, connection.driver))),
    undefined,
  );
}

/** How many connections a pool holds open now. */
export function openConnections(sql: Sql): number {
  return sql.pool.openCount;
}

/**
 * Does the work of a transaction or a savepoint. When its connection is lost, the driver fails the transaction at once
 * but goes on writing to the connection (the rollback, statements of the work), which throws outside of every promise.
 * So after a loss the work never ends for the driver, and its statements fail here.
 *
 * @param onLost called when the work ended after the loss.
 */
async function unlessLost<T>(
  connection: PooledConnection,
  tx: TransactionSql,
  work: (tx: TransactionSql) => T | Promise<T>,
  onLost: (error: Error) => void = () => undefined,
): Promise<T> {
  const savepoint = <P>(part: (inner: TransactionSql) => P | Promise<P>) =>
    new Promise((resolve, reject) => {
      if (connection.lost !== undefined) throw connection.lost;
      tx.savepoint((inner) => unlessLost(connection, inner, part, reject)).then(resolve, reject);
    });
  let failure: { error: unknown } | undefined;
  let result: T | undefined;
  try {
    result = await work(Object.assign(checked(connection, tx), { savepoint }) as unknown as TransactionSql);
  } catch (error) {
    failure = { error };
  }
  if (connection.lost !== undefined) {
    onLost(connection.lost);
    return new Promise<never>(() => {}); // one for each: what waits for a shared one would stay in memory
  }
  if (failure !== undefined) throw failure.error;
  return result as T;
}

/** Statements of one connection, which fail once it is lost. */
function checked(connection: PooledConnection, driver: postgres.ISql): postgres.ISql {
  const handle = handlerOf(driver);
  return redirected(driver, (query) => {
    if (connection.lost === undefined) handle(query);
    else query.reject(connection.lost);
  });
}

/** Runs a statement on a connection. What the driver says of it settles this promise, not yet the statement's own. */
function runOn(connection: PooledConnection, query: DriverQuery): Promise<unknown> {
  return new Promise((resolve, reject) => {
    Object.assign(query, { resolve, reject });
    connection.run(query);
  });
}

/** What the driver offers for statements, with another way to run them. */
function redirected(driver: postgres.ISql, handler: Handler): postgres.ISql {
  const redirect = <T>(made: T): T => (made instanceof Promise ? Object.assign(made, { handler }) : made);
  const make = driver as unknown as (...parameters: unknown[]) => unknown;
  const sql = (...parameters: unknown[]) => redirect(make(...parameters));
  const unsafe: postgres.ISql["unsafe"] = (...parameters) => redirect(driver.unsafe(...parameters));
  const { array, json, typed, types } = driver;
  return Object.assign(sql, { array, json, typed, types, unsafe }) as unknown as postgres.ISql;
}

/** True for a violated unique constraint of this name (SQLSTATE 23505). */
export function isUniqueViolation(error: unknown, constraint: string): boolean {
  const failure = error as { code?: unknown; constraint_name?: unknown } | null;
  return failure?.code === "23505" && failure.constraint_name === constraint;
}
