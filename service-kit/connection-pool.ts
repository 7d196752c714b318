import type { Socket } from "node:net";
import postgres from "postgres";
import { callTimeLeftMs } from "./call-deadline.ts";
import { openDatabaseSocket } from "./database-socket.ts";

export interface ConnectionPoolOptions {
  url: string;
  /** PEM. Enables TLS. */
  ca?: Buffer | undefined;
  maxConnections: number;
  /** For the socket with TLS, and again for the start of the session. */
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
}

const DEFAULT_PORT = 5_432;
const MIN_RECONNECT_PAUSE_MS = 50;
const MAX_RECONNECT_PAUSE_MS = 1_000;
const CLOSE_TIMEOUT_S = 1;

type PoolFailure = "CONNECTION_BUSY" | "CONNECTION_TOO_LATE" | "CONNECTION_CLOSED" | "CONNECTION_ENDED";

export interface DriverQuery extends Promise<unknown> {
  handler: Handler;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
}
export type Handler = (query: DriverQuery) => void;

/** An undocumented property. The driver's version is pinned. */
export function handlerOf(driver: postgres.ISql): Handler {
  return (driver.unsafe("") as unknown as DriverQuery).handler;
}

/**
 * Each connection has its own driver, because a driver that reconnects answers an unsent statement with an
 * empty result.
 */
export class PooledConnection {
  readonly driver: postgres.Sql;
  readonly run: Handler;
  readonly openedAtMs = performance.now();
  /** Set before the driver is notified. */
  lost: Error | undefined;
  isAdmitted = false;
  idleTimer: NodeJS.Timeout | undefined;
  readonly #options: ConnectionPoolOptions;
  readonly #onLost: (connection: PooledConnection) => void;
  readonly #abandoned = new AbortController();
  #hasSocket = false;

  constructor(
    options: ConnectionPoolOptions,
    onAdmitted: () => void,
    onLost: (connection: PooledConnection) => void,
  ) {
    this.#options = options;
    this.#onLost = onLost;
    this.driver = createDriver(options, {
      socket: () => this.#openSocket(),
      onparameter: () => {
        if (this.isAdmitted) return;
        this.isAdmitted = true;
        onAdmitted();
      },
    });
    this.run = handlerOf(this.driver);
  }

  /** The driver must not reconnect. */
  async #openSocket(): Promise<Socket> {
    if (this.#hasSocket) throw poolFailure("CONNECTION_CLOSED", "the database closed the connection");
    this.#hasSocket = true;
    const { url, ca, maxSilenceMs, connectTimeoutMs: timeoutMs } = this.#options;
    const { hostname, port } = new URL(url);
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
    this.#lose(poolFailure("CONNECTION_ENDED", "the connection was abandoned"));
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
  readonly #options: ConnectionPoolOptions;
  readonly #open = new Set<PooledConnection>();
  /** A stack: surplus connections become idle and are closed. */
  readonly #idle: PooledConnection[] = [];
  readonly #waiting = new Set<Waiter>();
  #failedConnects = 0;
  #connectAtMs = 0;
  #isEnded = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: ConnectionPoolOptions) {
    this.#options = options;
  }

  get openCount(): number {
    return this.#open.size;
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  /** @throws errors of the work, or a `PoolFailure` before it begins. */
  async hold<T>(work: (connection: PooledConnection) => Promise<T>): Promise<T> {
    const connection = this.#take() ?? (await this.#turn());
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
    if (this.#open.size >= this.#options.maxConnections || performance.now() < this.#connectAtMs)
      return undefined;
    const connection = new PooledConnection(
      this.#options,
      () => {
        this.#failedConnects = 0;
      },
      (lost) => this.#forget(lost),
    );
    this.#open.add(connection);
    return connection;
  }

  #turn(): Promise<PooledConnection> {
    const { maxWaiting, maxWaitMs } = this.#options;
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
      const timer = setTimeout(() => waiter.fail(tooLate()), untilMs - performance.now());
      this.#waiting.add(waiter);
    });
  }

  #serve(): void {
    for (const waiter of this.#waiting) {
      if (!waiter.isInTime()) {
        waiter.fail(tooLate());
        continue;
      }
      const connection = this.#idleConnection() ?? this.#newConnection();
      if (connection === undefined) return;
      waiter.give(connection);
    }
  }

  #release(connection: PooledConnection): void {
    const { idleTimeoutMs, lifetimeMs = Number.POSITIVE_INFINITY } = this.#options;
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
    const pauseMs = Math.min(MIN_RECONNECT_PAUSE_MS * 2 ** this.#failedConnects, MAX_RECONNECT_PAUSE_MS);
    this.#failedConnects = Math.min(this.#failedConnects + 1, 10);
    this.#connectAtMs = performance.now() + pauseMs;
    setTimeout(() => this.#serve(), pauseMs + 1).unref();
  }
}

function close(connection: PooledConnection): void {
  connection.close().catch(() => connection.abandon());
}

export function createDriver(options: ConnectionPoolOptions, extra: object = {}): postgres.Sql {
  return postgres(options.url, {
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

function tooLate(): Error {
  return poolFailure("CONNECTION_TOO_LATE", "connecting to the database took too long");
}

function poolFailure(code: PoolFailure, message: string): Error {
  return Object.assign(new Error(message), { code });
}
