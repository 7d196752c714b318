import { readFileSync } from "node:fs";
import { Redis, type RedisOptions } from "ioredis";
import type { Secret } from "./config.ts";

export interface RedisSettings {
  /** Formats are those of `redisConfig`. */
  url: string;
  password?: Secret<string> | undefined;
  caFile?: string | undefined;
}

const DEFAULT_PORT = 6_379;
const CONNECT_TIMEOUT_MS = 2_000;
const ANSWER_TIMEOUT_MS = 2_000;
const MAX_RECONNECT_PAUSE_MS = 2_000;

/** Call `connect` first. Commands without a connection fail at once. */
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
    // Needs INFO, which a narrow ACL does not grant.
    enableReadyCheck: false,
    disableClientInfo: true,
  });
}

type Endpoint = Pick<RedisOptions, "host" | "port" | "username" | "password" | "tls">;

/** Omits the query string, which could set any client option. */
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

function pauseMs(attempt: number): number {
  return Math.min(50 * 2 ** (attempt - 1), MAX_RECONNECT_PAUSE_MS) * (0.8 + Math.random() * 0.4);
}
