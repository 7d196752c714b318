import { randomBytes, randomInt } from "node:crypto";
import { readFileSync } from "node:fs";
import type postgres from "postgres";
import { ConfigError, type Secret } from "../config/config.ts";
import { databaseHosts } from "../config/database-hosts.ts";
import type { Logger } from "../telemetry/logger.ts";
import { DomainError } from "../values/errors.ts";
import { type AcknowledgedCommit, AcknowledgedCommits } from "./acknowledged-commits.ts";
import {
  assertInTime,
  ConnectionPool,
  type ConnectionPoolOptions,
  createDriver,
  type PooledConnection,
} from "./connection-pool.ts";
import { causeOfUnavailable, nameFailures } from "./database-failure.ts";
import { type Handler, handlerOf, redirected, send } from "./postgres-js-internals.ts";

/** Temporary failures become {DomainError} `service_unavailable`. */
export interface Sql extends postgres.ISql {
  readonly pool: ConnectionPool;
  readonly answerTimeoutMs: number | undefined;
  readonly commits: AcknowledgedCommits;
  /** @param options.timeout seconds, by default 5. */
  end(options?: { timeout?: number }): Promise<void>;
}

export type SqlPart = postgres.Fragment;

export type Session = postgres.ISql;

/** As a parameter type it requires a transaction. */
export interface TransactionSql extends postgres.TransactionSql {
  /** `Sql.commits` gets the last mark once the commit is acknowledged. Absent in a savepoint, whose rows may be rolled back. */
  markCommit?: (mark: AcknowledgedCommit) => void;
}

export interface DatabaseConfig {
  DATABASE_URL: string;
  DATABASE_PASSWORD_FILE: Secret<string>;
  DATABASE_CA_FILE?: string | undefined;
  DATABASE_POOL_SIZE: number;
  DATABASE_POOLER?: boolean | undefined;
}

const CONNECT_TIMEOUT_MS = 2_000;
const CONNECTION_LIFETIME_MS = 30 * 60_000;
const IDLE_TIMEOUT_MS = 10_000;
/** A transaction, and a statement beside it. */
const CONNECTIONS_AT_START = 2;
/** Longer than the other time-outs, so only a dead connection is silent this long. */
const SILENT_CONNECTION_MS = 15_000;
const STATEMENT_TIMEOUT_MS = 2_000;
const ANSWER_GRACE_MS = 500;
/** A caller further back would time out. */
const MAX_WAITING_PER_CONNECTION = 100;
const END_TIMEOUT_S = 5;
/** A pooler of transactions passes all of them by chance in less than one of 10^9 starts. */
const SESSION_CHECK_ROUNDS = 30;
const UNDECLARED_POOLER =
  "DATABASE_POOLER: PgBouncer is between here and PostgreSQL: set true, and pool_mode = session in PgBouncer";

interface ConnectOptions {
  /** Run-time parameters. */
  session?: Readonly<Record<string, string | number>>;
  /** It limits the wait for a connection, too. */
  connectTimeoutMs?: number;
}

export function connectPostgres(
  config: DatabaseConfig,
  name: string,
  logger: Logger,
  { session, connectTimeoutMs = CONNECT_TIMEOUT_MS }: ConnectOptions = {},
): Sql {
  const parameters = {
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: 1_000,
    idle_in_transaction_session_timeout: 5_000,
    // Without statistics of a new table a read of 1 ms is compiled for seconds, where the server has LLVM.
    jit: "off",
    ...session,
  };
  const isPooler = config.DATABASE_POOLER === true;
  return openPool({
    url: config.DATABASE_URL,
    prelude: isPooler ? settingStatements(parameters) : undefined,
    ca: config.DATABASE_CA_FILE === undefined ? undefined : readFileSync(config.DATABASE_CA_FILE),
    maxConnections: config.DATABASE_POOL_SIZE,
    connectTimeoutMs,
    maxSilenceMs: SILENT_CONNECTION_MS,
    idleTimeoutMs: IDLE_TIMEOUT_MS,
    lifetimeMs: CONNECTION_LIFETIME_MS,
    maxWaitMs: connectTimeoutMs,
    maxWaiting: MAX_WAITING_PER_CONNECTION * config.DATABASE_POOL_SIZE,
    answerTimeoutMs: Number(parameters.statement_timeout) + ANSWER_GRACE_MS,
    driver: {
      password: config.DATABASE_PASSWORD_FILE.reveal(),
      connection: { application_name: name, ...(!isPooler && parameters) },
      onnotice: (notice) => logger.debug({ notice: notice.message }, "database notice"),
    },
  });
}

/** @param parameters constants of ours. */
function settingStatements(parameters: Readonly<Record<string, string | number>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `set ${name} = '${value}'`)
    .join("; ");
}

export interface PoolOptions extends ConnectionPoolOptions {
  /** Includes the wait for a connection. */
  answerTimeoutMs?: number;
}

export function openPool(options: PoolOptions): Sql {
  const { answerTimeoutMs } = options;
  const pool = new ConnectionPool(options);
  const builder = createDriver(options); // Builds statements and never connects.
  const run: Handler = (query) => {
    const { resolve, reject } = query;
    const work = pool.hold((connection) => send(query, connection.run));
    nameFailures(work, answerTimeoutMs).then(resolve, reject);
  };
  return Object.assign(redirected(builder, run), {
    pool,
    answerTimeoutMs,
    commits: new AcknowledgedCommits(),
    end: ({ timeout = END_TIMEOUT_S } = {}) => pool.end(timeout * 1_000),
  }) as Sql;
}

/**
 * Rolls back what would end after the call's deadline, or without its caller: the caller has perhaps repeated it, and done more.
 *
 * @throws errors of the work, or {DomainError} `service_unavailable`, after which a commit may have happened.
 */
export function transaction<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  let mark: AcknowledgedCommit | undefined;
  const markCommit = (given: AcknowledgedCommit) => {
    mark = given;
  };
  const inTime = async (tx: TransactionSql) => {
    const result = await work(Object.assign(tx, { markCommit }));
    assertInTime();
    return result;
  };
  const done = sql.pool.hold(async (connection) => {
    // Undoes the driver's unwrapping of promise arrays.
    const result = (await connection.driver.begin((tx) => unlessLost(connection, tx, inTime))) as T;
    if (mark !== undefined) sql.commits.add(mark);
    return result;
  });
  return nameFailures(done, sql.answerTimeoutMs);
}

/** For session settings and locks. Has no time limit. */
export function onOneConnection<T>(sql: Sql, work: (session: Session) => Promise<T>): Promise<T> {
  return nameFailures(
    sql.pool.hold((connection) => work(checked(connection, connection.driver))),
    undefined,
  );
}

/**
 * Locks of sessions, and time limits, need a session for each connection. A pooler of transactions gives a statement any
 * session, whichever connection it comes from. So one connection takes a lock and must keep it, and another must never get
 * it. They ask in a random order, so in each round a pooler answers as sessions do with a chance of at most one half,
 * whatever else it serves.
 *
 * @throws {ConfigError} if sessions are shared, {DomainError} `service_unavailable` if that cannot be known now.
 */
export async function assertSessions(sql: Sql): Promise<void> {
  const pair = openPool({ ...sql.pool.options, maxConnections: 2 });
  const key = randomBytes(8).readBigInt64BE();
  let server: unknown;
  const ask = async (session: Session, holder: Session) => {
    const [row] = await session.unsafe(`select pg_try_advisory_lock(${key}) as "isLocked",
      extract(epoch from pg_postmaster_start_time())::text as server`);
    server ??= row?.server;
    // The lock is one server's: after a fail-over the answers prove nothing.
    if (row?.server !== server)
      throw new DomainError("service_unavailable", "The database server has changed");
    if (row?.isLocked === (session === holder)) return;
    // The end of its session frees the lock, too.
    await holder.unsafe("select");
    throw sharedSessions(sql);
  };
  try {
    await onOneConnection(pair, (holder) =>
      onOneConnection(pair, async (other) => {
        await ask(holder, holder);
        for (let round = 0; round < SESSION_CHECK_ROUNDS; round++) {
          const order = randomInt(2) === 0 ? [holder, other] : [other, holder];
          for (const session of order) await ask(session, holder);
        }
        await holder.unsafe("select pg_advisory_unlock_all()");
      }),
    );
  } catch (error) {
    throw isUndeclaredPooler(error) ? new ConfigError(UNDECLARED_POOLER) : error;
  } finally {
    await pair.end({ timeout: 1 });
  }
}

/** PgBouncer's own refusal, of every such connection. */
function isUndeclaredPooler(error: unknown): boolean {
  return causeOfUnavailable(error)?.message.startsWith("unsupported startup parameter: ") === true;
}

function sharedSessions(sql: Sql): ConfigError {
  const hosts = databaseHosts(sql.pool.options.url)?.map(({ host }) => host);
  return new ConfigError(
    `DATABASE_URL: a pooler at or behind ${hosts?.join(",")} shares sessions of PostgreSQL between connections, so locks do not ` +
      "exclude and time limits get lost: set pool_mode = session in PgBouncer, or connect to PostgreSQL directly",
  );
}

/** `ServiceProcess.serveRpc` does it before the service is ready, so that no call spends its time on connecting. */
export async function warmUp(sql: Sql): Promise<void> {
  await Promise.all(Array.from({ length: CONNECTIONS_AT_START }, () => sql`select`));
}

export function openConnections(sql: Sql): number {
  return sql.pool.openCount;
}

/**
 * After a connection loss the driver still writes the rollback, which throws outside of every promise. So the
 * work never settles for the driver, and its statements fail here.
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
    return new Promise<never>(() => {}); // A shared promise would retain all its waiters.
  }
  if (failure !== undefined) throw failure.error;
  return result as T;
}

function checked(connection: PooledConnection, driver: postgres.ISql): postgres.ISql {
  const handle = handlerOf(driver);
  return redirected(driver, (query) => {
    if (connection.lost === undefined) handle(query);
    else query.reject(connection.lost);
  });
}

/** Citus names the constraint only in the message, followed by the number of the shard: `users_email_key_102038`. */
export function isUniqueViolation(error: unknown, constraint: string): boolean {
  const failure = error as { code?: unknown; constraint_name?: unknown; message?: unknown } | null;
  const place = String(failure?.constraint_name ?? failure?.message);
  return failure?.code === "23505" && new RegExp(`\\b${constraint}(_\\d{6,})?\\b`).test(place);
}

export async function readDatabaseClock(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  if (row === undefined) throw new Error("the database returned no time");
  return row.now;
}
