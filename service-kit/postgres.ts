import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import postgres from "postgres";
import type { Secret } from "./config.ts";
import { DomainError } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { withinDeadline } from "./within-deadline.ts";

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
const IDLE_TIMEOUT_S = 10;
/**
 * A server that lives says something within `statement_timeout`, and a connection that idles is closed before: silence
 * for this long is a connection whose other end is gone.
 */
const SILENT_CONNECTION_MS = 15_000;
const SILENCE_CHECK_INTERVAL_MS = 2_500;
/** Longer than any statement may take at the server, for when no server answers. */
const ANSWER_TIMEOUT_MS = 2_500;

/**
 * A pool of connections. Connects when first used; every statement, lock and idle transaction has a time-out.
 *
 * @param session more run-time parameters of every connection.
 */
export function connectPostgres(
  config: DatabaseConfig,
  name: string,
  logger: Logger,
  session: Readonly<Record<string, string | number>> = {},
): Sql {
  let open = 0;
  const onSocket = (change: 1 | -1) => {
    open += change;
  };
  const sql = postgres(config.DATABASE_URL, {
    password: config.DATABASE_PASSWORD_FILE.reveal(),
    max: config.DATABASE_POOL_SIZE,
    connect_timeout: CONNECT_TIMEOUT_S,
    max_lifetime: CONNECTION_LIFETIME_S,
    idle_timeout: IDLE_TIMEOUT_S,
    ...({ socket: (target: SocketTarget) => openSocket(target, onSocket) } as object), // an option that the driver has and its types have not
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
      ...session,
    },
    onnotice: (notice) => logger.debug({ notice: notice.message }, "database notice"),
  });
  connectionCounts.set(sql, () => open);
  return sql;
}

/**
 * Does work in a transaction: commits what it did, or rolls it back when it throws.
 *
 * The only way to a transaction. The driver's own `begin` goes on writing to a connection that has been lost (its
 * rollback, the next statement of the work), which throws outside every promise and ends the process.
 *
 * @param work must send its statements through what it is given. Statements after the connection was lost throw.
 * @throws what the work threw; the driver's `CONNECTION_CLOSED` if the connection was lost. A commit under way at that
 *   moment may or may not have happened.
 */
export function transaction<T>(sql: Sql, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  let lost: unknown;
  const result = sql.begin((tx) => doUnlessLost(tx, work, () => lost));
  result.catch((error: unknown) => {
    lost = error;
  });
  return result as Promise<T>; // the cast undoes the unwrapping of arrays of promises, which work never returns
}

const NEVER = new Promise<never>(() => {});

/** Never settles once the connection is lost: the driver has answered its caller, and must not send its rollback. */
async function doUnlessLost<T>(
  tx: TransactionSql,
  work: (tx: TransactionSql) => T | Promise<T>,
  lostBy: () => unknown,
): Promise<T> {
  try {
    return await work(guarded(tx, lostBy));
  } catch (error) {
    await new Promise(setImmediate); // the driver says that the connection was lost after it failed the statement
    return lostBy() === undefined ? Promise.reject(error) : NEVER;
  }
}

/** The transaction's connection, which throws once its connection is lost instead of writing to it. */
function guarded(tx: TransactionSql, lostBy: () => unknown): TransactionSql {
  const throwIfLost = () => {
    const lost = lostBy();
    if (lost !== undefined) throw lost;
  };
  const savepoint = (work: (inner: TransactionSql) => unknown) =>
    tx.savepoint((inner) => doUnlessLost(inner, work, lostBy));
  return new Proxy(tx, {
    apply(target, self, parameters) {
      throwIfLost();
      return Reflect.apply(target, self, parameters);
    },
    get(target, name) {
      const value = name === "savepoint" ? savepoint : Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return (...parameters: unknown[]) => {
        throwIfLost();
        return Reflect.apply(value, target, parameters);
      };
    },
  });
}

const connectionCounts = new WeakMap<Sql, () => number>();

/** How many connections a pool of `connectPostgres` holds open now. */
export function openConnections(sql: Sql): number {
  return connectionCounts.get(sql)?.() ?? 0;
}

interface SocketTarget {
  host: string[];
  port: number[];
}

/**
 * As the driver would, but given up when nothing comes from the other end: the driver has no such limit. The driver
 * writes at once, which waits for the connection; an error comes to it as an event.
 */
function openSocket({ host, port }: SocketTarget, onSocket: (change: 1 | -1) => void): Socket {
  const [name = "localhost"] = host;
  const socket = connect({ host: name, port: port[0] ?? 5432 });
  endWhenSilent(socket);
  socket.once("connect", () => {
    onSocket(1);
    socket.once("close", () => onSocket(-1));
  });
  return Object.assign(socket, { host: name }); // the driver verifies the certificate against this name
}

/** Counts what was read: a socket's own time-out starts again with every write, and queries go on being written. */
function endWhenSilent(socket: Socket): void {
  let bytesRead = 0;
  let silentSinceMs = performance.now();
  const timer = setInterval(() => {
    if (socket.bytesRead !== bytesRead) {
      bytesRead = socket.bytesRead;
      silentSinceMs = performance.now();
    } else if (performance.now() - silentSinceMs >= SILENT_CONNECTION_MS) {
      socket.destroy(Object.assign(new Error("the database is silent"), { code: "ETIMEDOUT" }));
    }
  }, SILENCE_CHECK_INTERVAL_MS);
  timer.unref();
  socket.once("close", () => clearInterval(timer));
}

/** SQLSTATE classes and driver codes that say "not now" rather than "wrong". */
const UNAVAILABLE =
  /^(08...|28000|28P01|3D000|53...|57P0.|57014|55P03|40001|40P01|25006|CONNECTION_.*|CONNECT_TIMEOUT|E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NOTFOUND|AI_AGAIN))$/;

/**
 * Gives a failure of the database the name the caller can handle.
 *
 * @throws {DomainError} `service_unavailable` if the database is away, overloaded, or silent for 2.5 s; everything
 *   else as it came.
 */
export async function orUnavailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await withinDeadline(work, ANSWER_TIMEOUT_MS);
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
