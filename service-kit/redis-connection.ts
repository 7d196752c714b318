import { readFileSync } from "node:fs";
import { Redis, type RedisOptions } from "ioredis";
import type { Secret } from "./config.ts";

/** Where Redis is and how it is spoken to. */
export interface RedisSettings {
  /** `redis://[user@]host[:port]`, or `rediss://` for TLS with full verification. The password comes apart. */
  url: string;
  password?: Secret<string> | undefined;
  /** CA of the server's certificate, PEM; the system's authorities if absent. Only with `rediss://`. */
  caFile?: string | undefined;
}

const DEFAULT_PORT = 6_379;
const CONNECT_TIMEOUT_MS = 2_000;
/** What Redis has not answered by then, it will not: the connection is replaced. */
const ANSWER_TIMEOUT_MS = 2_000;
const MAX_RECONNECT_PAUSE_MS = 2_000;

/**
 * A connection that comes back by itself, for as long as it takes. Not connected yet: call `connect`. A command
 * given while there is no connection, or cut off with it, fails at once and is never sent later: nothing queues.
 */
export function openRedis(settings: RedisSettings, name: string): Redis {
  return new Redis({
    ...endpoint(settings),
    connectionName: name,
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    socketTimeout: ANSWER_TIMEOUT_MS,
    retryStrategy: pauseMs,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    // Who only publishes, subscribes or runs a script needs no INFO command, which a narrow ACL does not grant.
    enableReadyCheck: false,
    disableClientInfo: true,
  });
}

type Endpoint = Pick<RedisOptions, "host" | "port" | "username" | "password" | "tls">;

/** Member by member, not as a URL: there a query string would set any option of the client. */
function endpoint({ url, password, caFile }: RedisSettings): Endpoint {
  const { protocol, hostname, port, username } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? DEFAULT_PORT : Number(port),
    ...(username !== "" && { username: decodeURIComponent(username) }),
    ...(password !== undefined && { password: password.reveal() }),
    ...(protocol === "rediss:" && {
      tls: { rejectUnauthorized: true, ...(caFile !== undefined && { ca: readFileSync(caFile) }) },
    }),
  };
}

/** Doubling from 50 ms, varied by a fifth so that replicas do not come back in step. */
function pauseMs(attempt: number): number {
  return Math.min(50 * 2 ** (attempt - 1), MAX_RECONNECT_PAUSE_MS) * (0.8 + Math.random() * 0.4);
}
