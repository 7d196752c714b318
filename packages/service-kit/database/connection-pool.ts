import type { Socket } from "node:net";
import postgres from "postgres";
import { databaseHosts } from "../config/database-hosts.ts";
import { backOffMs } from "../values/back-off.ts";
import { callTimeLeftMs, callTurn, withTurn } from "../values/call-deadline.ts";
import { createTurns, tooManyAtOnce } from "../values/turns.ts";
import { openDatabaseSocket } from "./database-socket.ts";
import { type Handler, handlerOf } from "./postgres-js-internals.ts";

export interface ConnectionPoolOptions {
  /** Of several hosts, the primary is used: a standby is refused. */
  url: string;
  /** PEM. Enables TLS. */
  ca?: Buffer | undefined;
  maxConnections: number;
  /** It counts for the socket with TLS, and again for the start of the session. */
  connectTimeoutMs: number;
  /** Limit for a server that sends nothing. */
  maxSilenceMs?: number;
  idleTimeoutMs?: number;
  /** Replaces old connections, so that a pool spreads over added servers. */
  lifetimeMs?: number;
  /** The call's deadline may shorten it. */
  maxWaitMs: number;
  maxWaiting: number;
  driver: Pick<postgres.Options<Record<never, never>>, "password" | "connection" | "onnotice">;
  /** SQL that each new session begins with, before any work. */
  prelude?: string | undefined;
}

const DEFAULT_PORT = 5_432;
/** Where the driver's own query for types has failed, arrays would be sent and read as text. */
export const CHECK_OF_TYPES = "select '{}'::text[] as known";
const MIN_RECONNECT_PAUSE_MS = 50;
const MAX_RECONNECT_PAUSE_MS = 1_000;
const CLOSE_TIMEOUT_S = 1;
/** Of one caller. */
const MAX_WAITING_FOR_A_TURN = 100;

type PoolFailure =
  | "CONNECTION_BUSY"
  | "CONNECTION_TOO_LATE"
  | "CONNECTION_CLOSED"
  | "CONNECTION_ENDED"
  | "CONNECTION_STANDBY";

interface PoolHost {
  url: URL;
  isOneOfSeveral: boolean;
  /** SQL that has to succeed before any work. It ends with the check of types. */
  opening: string;
}

/**
 * Each connection has its own driver, because a driver that reconnects answers an unsent statement with an
 * empty result.
 */
export class PooledConnection {
  readonly driver: postgres.Sql;
  readonly run: Handler;
  readonly openedAtMs = performance.now();
  readonly host: URL;
  /** Set before the driver is notified. */
  lost: Error | undefined;
  isAdmitted = false;
  idleTimer: NodeJS.Timeout | undefined;
  readonly #options: ConnectionPoolOptions;
  readonly #opening: string;
  readonly #onAdmitted: () => void;
  readonly #onLost: (connection: PooledConnection) => void;
  readonly #abandoned = new AbortController();
  #hasSocket = false;

  constructor(
    options: ConnectionPoolOptions,
    { url, isOneOfSeveral, opening }: PoolHost,
    onAdmitted: () => void,
    onLost: (connection: PooledConnection) => void,
  ) {
    this.#options = options;
    this.host = url;
    this.#opening = opening;
    this.#onAdmitted = onAdmitted;
    this.#onLost = onLost;
    this.driver = createDriver(options, {
      socket: () => this.#openSocket(),
      onparameter: (name: string, value: string) => {
        // Reported at the start of a session since PostgreSQL 14, in no certain place among the others.
        if (isOneOfSeveral && name === "in_hot_standby" && value === "on")
          this.#drop(poolFailure("CONNECTION_STANDBY", "the server is a standby"));
      },
    });
    this.run = handlerOf(this.driver);
  }

  /** Call it once, before any work. @throws why the connection cannot be used. */
  async open(): Promise<void> {
    if (this.isAdmitted) return;
    try {
      const rows = await this.driver.unsafe(this.#opening);
      if (!knowsArrays(rows))
        this.#drop(poolFailure("CONNECTION_CLOSED", "the driver has not learnt the types"));
    } catch (error) {
      throw this.lost ?? error;
    }
    if (this.lost !== undefined) throw this.lost;
    this.isAdmitted = true;
    this.#onAdmitted();
  }

  /** The driver must not reconnect. */
  async #openSocket(): Promise<Socket> {
    if (this.#hasSocket) throw poolFailure("CONNECTION_CLOSED", "the database closed the connection");
    this.#hasSocket = true;
    const { ca, maxSilenceMs, connectTimeoutMs: timeoutMs } = this.#options;
    const { hostname, port } = this.host;
    try {
      const socket = await openDatabaseSocket({
        host: hostname.replace(/^\[|\]$/g, ""),
        port: port === "" ? DEFAULT_PORT : Number(port),
        ca,
        timeoutMs,
        maxSilenceMs,
        signal: this.#abandoned.signal,
      });
      const onClosed = () =>
        this.#lose(poolFailure("CONNECTION_CLOSED", "the database closed the connection"));
      socket
        .once("error", (error) => this.#lose(error))
        .once("end", onClosed)
        .once("close", onClosed);
      return socket;
    } catch (error) {
      this.#lose(error as Error);
      throw error;
    }
  }

  #lose(error: Error): void {
    if (this.lost !== undefined) return;
    this.lost = error;
    clearTimeout(this.idleTimer);
    this.#onLost(this);
  }

  async close(): Promise<void> {
    await this.driver.end({ timeout: CLOSE_TIMEOUT_S });
    this.abandon();
  }

  /** Running statements fail. */
  abandon(): void {
    this.#drop(poolFailure("CONNECTION_ENDED", "the connection was abandoned"));
  }

  #drop(why: Error): void {
    this.#lose(why);
    const drop = () => this.#abandoned.abort();
    this.driver.end({ timeout: 0 }).then(drop, drop);
  }
}

interface Waiter {
  give: (connection: PooledConnection) => void;
  fail: (error: Error) => void;
  isInTime: () => boolean;
}

/** The queue is bounded. Nothing is sent for a caller past its deadline. */
export class ConnectionPool {
  readonly options: ConnectionPoolOptions;
  readonly #hosts: readonly [URL, ...URL[]];
  readonly #opening: string;
  /** New connections go here. */
  #host: URL;
  readonly #open = new Set<PooledConnection>();
  /** A stack: surplus connections become idle and are closed. */
  readonly #idle: PooledConnection[] = [];
  readonly #waiting = new Set<Waiter>();
  readonly #turns = createTurns({ maxWaitingForOne: MAX_WAITING_FOR_A_TURN, refuse: tooManyAtOnce });
  #failedConnects = 0;
  #connectAtMs = 0;
  #isEnded = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: ConnectionPoolOptions) {
    this.options = options;
    this.#hosts = hostsOf(options);
    // With its answer the server has also reported whether it is a standby.
    this.#opening = [options.prelude, CHECK_OF_TYPES].filter(Boolean).join("; ");
    this.#host = this.#hosts[0];
  }

  get openCount(): number {
    return this.#open.size;
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  /** @throws errors of the work; before it begins a `PoolFailure`, or {DomainError} `too_many_requests`. */
  async hold<T>(work: (connection: PooledConnection) => Promise<T>): Promise<T> {
    const key = callTurn();
    if (key === undefined) return this.#hold(work);
    // Before a connection is taken, so that others find one.
    const { maxWaitMs } = this.options;
    const release = await this.#turns.take(key, Math.min(maxWaitMs, callTimeLeftMs() ?? maxWaitMs));
    try {
      // What this work does with other connections must not wait for itself.
      return await withTurn(undefined, () => this.#hold(work));
    } finally {
      release();
    }
  }

  async #hold<T>(work: (connection: PooledConnection) => Promise<T>): Promise<T> {
    const connection = await this.#opened();
    try {
      return await work(connection);
    } finally {
      this.#release(connection);
    }
  }

  async end(timeoutMs: number): Promise<void> {
    this.#isEnded = true;
    for (const waiter of this.#waiting) waiter.fail(poolFailure("CONNECTION_ENDED", "the pool is closing"));
    for (const connection of this.#idle.splice(0)) close(connection);
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeoutMs);
        this.#onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    for (const connection of this.#open) connection.abandon();
  }

  /** Asks each host at most once. */
  async #opened(): Promise<PooledConnection> {
    for (let left = this.#hosts.length; ; left--) {
      const connection = this.#take() ?? (await this.#turn());
      try {
        await connection.open();
        assertInTime();
        return connection;
      } catch (error) {
        this.#release(connection);
        if (left <= 1 || connection.lost === undefined) throw error;
      }
    }
  }

  #take(): PooledConnection | undefined {
    if (this.#isEnded) throw poolFailure("CONNECTION_ENDED", "the pool is closing");
    assertInTime();
    return this.#waiting.size > 0 ? undefined : (this.#idleConnection() ?? this.#newConnection());
  }

  #idleConnection(): PooledConnection | undefined {
    const connection = this.#idle.pop();
    clearTimeout(connection?.idleTimer);
    return connection;
  }

  #newConnection(): PooledConnection | undefined {
    if (this.#open.size >= this.options.maxConnections || performance.now() < this.#connectAtMs)
      return undefined;
    const connection = new PooledConnection(
      this.options,
      { url: this.#host, isOneOfSeveral: this.#hosts.length > 1, opening: this.#opening },
      () => {
        this.#failedConnects = 0;
      },
      (lost) => this.#forget(lost),
    );
    this.#open.add(connection);
    return connection;
  }

  #turn(): Promise<PooledConnection> {
    const { maxWaiting, maxWaitMs } = this.options;
    if (this.#waiting.size >= maxWaiting)
      throw poolFailure("CONNECTION_BUSY", "too many callers wait for a connection");
    const untilMs = performance.now() + Math.min(maxWaitMs, callTimeLeftMs() ?? maxWaitMs);
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(waiter);
        settle();
      };
      const waiter: Waiter = {
        give: (connection) => end(() => resolve(connection)),
        fail: (error) => end(() => reject(error)),
        isInTime: () => performance.now() < untilMs,
      };
      const timer = setTimeout(() => waiter.fail(allBusy()), untilMs - performance.now());
      this.#waiting.add(waiter);
    });
  }

  #serve(): void {
    for (const waiter of this.#waiting) {
      if (!waiter.isInTime()) {
        waiter.fail(allBusy());
        continue;
      }
      const connection = this.#idleConnection() ?? this.#newConnection();
      if (connection === undefined) return;
      waiter.give(connection);
    }
  }

  #release(connection: PooledConnection): void {
    const { idleTimeoutMs, lifetimeMs = Number.POSITIVE_INFINITY } = this.options;
    if (connection.lost !== undefined) return;
    if (this.#isEnded || performance.now() - connection.openedAtMs >= lifetimeMs) {
      close(connection);
      return;
    }
    if (idleTimeoutMs !== undefined) {
      connection.idleTimer = setTimeout(() => {
        this.#idle.splice(this.#idle.indexOf(connection), 1);
        close(connection);
      }, idleTimeoutMs);
      connection.idleTimer.unref(); // The open connection keeps the process alive.
    }
    this.#idle.push(connection);
    this.#serve();
  }

  #forget(connection: PooledConnection): void {
    this.#open.delete(connection);
    const index = this.#idle.indexOf(connection);
    if (index >= 0) this.#idle.splice(index, 1);
    if (this.#open.size === 0) this.#onEmpty?.();
    if (connection.isAdmitted || this.#isEnded) {
      this.#serve();
      return;
    }
    if (this.#hosts.length > 1 && !this.#isEndOfRound(connection.host)) {
      this.#serve();
      return;
    }
    this.#failedConnects += 1;
    const pauseMs = backOffMs({
      attempt: this.#failedConnects,
      firstMs: MIN_RECONNECT_PAUSE_MS,
      maxMs: MAX_RECONNECT_PAUSE_MS,
    });
    this.#connectAtMs = performance.now() + pauseMs;
    setTimeout(() => this.#serve(), pauseMs + 1).unref();
  }

  /** Goes on to the next host, unless another connection has failed at this one before. */
  #isEndOfRound(failed: URL): boolean {
    if (this.#host !== failed) return false;
    const next = this.#hosts[this.#hosts.indexOf(failed) + 1];
    this.#host = next ?? this.#hosts[0];
    return next === undefined;
  }
}

/** @param rows of the opening; of several statements the rows of each. */
function knowsArrays(rows: postgres.RowList<(postgres.Row & Iterable<postgres.Row>)[]>): boolean {
  const last: unknown = rows.at(-1);
  const [row] = Array.isArray(last) ? last : [last];
  return row === undefined || Array.isArray((row as { known?: unknown }).known);
}

function close(connection: PooledConnection): void {
  connection.close().catch(() => connection.abandon());
}

export function createDriver(options: ConnectionPoolOptions, extra: object = {}): postgres.Sql {
  return postgres(hostsOf(options)[0].href, {
    ...options.driver,
    max: 1,
    ssl: false, // The socket is already encrypted.
    connect_timeout: options.connectTimeoutMs / 1_000,
    idle_timeout: 0,
    max_lifetime: null,
    ...extra,
  });
}

/** @throws after the deadline of the call, or when its caller has gone. */
export function assertInTime(): void {
  if ((callTimeLeftMs() ?? 1) <= 0) throw tooLate();
}

/** @throws {TypeError} for a URL that the configuration would refuse. */
function hostsOf({ url }: ConnectionPoolOptions): [URL, ...URL[]] {
  const urls = databaseHosts(url);
  if (urls === undefined) throw new TypeError("the URL of the database cannot be read");
  return urls;
}

function tooLate(): Error {
  return poolFailure("CONNECTION_TOO_LATE", "the call's deadline has passed, or its caller has gone");
}

function allBusy(): Error {
  return poolFailure("CONNECTION_TOO_LATE", "no database connection became free in time");
}

function poolFailure(code: PoolFailure, message: string): Error {
  return Object.assign(new Error(message), { code });
}
