import { readFileSync } from "node:fs";
import { connect, Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { AbstractConnector, Redis, type RedisOptions } from "ioredis";
import { hostText, parseRedisUrl, type RedisHost, type RedisTarget } from "../config/redis-url.ts";
import { backOffMs } from "../values/back-off.ts";
import { PrimaryWatch } from "./primary-watch.ts";
import type { RedisSettings } from "./redis-settings.ts";

const CONNECT_TIMEOUT_MS = 2_000;
const ANSWER_TIMEOUT_MS = 2_000;
const FIRST_RECONNECT_PAUSE_MS = 50;
const MAX_RECONNECT_PAUSE_MS = 2_000;
/** With sentinels a connection waits for a primary first. */
const MAX_SENTINEL_PAUSE_MS = 250;
/** A server that has become a replica may keep its connections. Its name may lead to another one by now. */
const READ_ONLY = /\bREADONLY\b/;
const LEAVE_READ_ONLY_EVERY_MS = 5_000;

/** Undefined if the URL names one server. Close it after the connections. */
export function watchPrimary(settings: RedisSettings, name: string): PrimaryWatch | undefined {
  const target = targetOf(settings);
  if (target.primaryName === undefined) return undefined;
  return new PrimaryWatch({
    sentinels: target.hosts,
    primaryName: target.primaryName,
    connection: {
      connectionName: name,
      ...(settings.sentinelPassword !== undefined && { password: settings.sentinelPassword.reveal() }),
      ...tlsOf(settings, target),
    },
  });
}

/**
 * Call `connect` first. Commands without a connection fail at once.
 *
 * @param watch of `watchPrimary`. The connection leads to the primary that it names, and ends when that is another one.
 */
export function openRedis(settings: RedisSettings, name: string, watch: PrimaryWatch | undefined): Redis {
  const target = targetOf(settings);
  const [server] = target.hosts;
  const { username } = target;
  let leftAtMs = Number.NEGATIVE_INFINITY;
  return new Redis({
    ...(watch === undefined ? server : { Connector: primaryConnector(watch) }),
    ...(username !== "" && { username }),
    ...(settings.password !== undefined && { password: settings.password.reveal() }),
    ...tlsOf(settings, target),
    connectionName: name,
    lazyConnect: true,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    socketTimeout: ANSWER_TIMEOUT_MS,
    retryStrategy: (attempt) =>
      backOffMs({
        attempt,
        firstMs: FIRST_RECONNECT_PAUSE_MS,
        maxMs: watch === undefined ? MAX_RECONNECT_PAUSE_MS : MAX_SENTINEL_PAUSE_MS,
        random: Math.random(),
      }),
    reconnectOnError(error) {
      const isDue = performance.now() - leftAtMs > LEAVE_READ_ONLY_EVERY_MS;
      if (!READ_ONLY.test(error.message) || !isDue) return false;
      leftAtMs = performance.now();
      return true;
    },
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    // Needs INFO, which a narrow ACL does not grant.
    enableReadyCheck: false,
    disableClientInfo: true,
  });
}

function targetOf({ url }: RedisSettings): RedisTarget {
  const target = parseRedisUrl(url);
  if (target === undefined) throw new Error("REDIS_URL cannot be read");
  return target;
}

function tlsOf({ caFile }: RedisSettings, { isEncrypted }: RedisTarget): Pick<RedisOptions, "tls"> {
  if (!isEncrypted) return {};
  return { tls: { rejectUnauthorized: true, ...(caFile !== undefined && { ca: readFileSync(caFile) }) } };
}

/** Connects to the primary that is named at the time, and leaves it when another one is. */
function primaryConnector(watch: PrimaryWatch) {
  return class extends AbstractConnector {
    readonly #tls: ConnectionOptions | undefined;
    #forgetChanges = () => {};

    constructor(options: unknown) {
      super(0);
      this.#tls = (options as RedisOptions).tls;
    }

    override async connect(): Promise<Socket> {
      this.connecting = true;
      const primary = await named(watch, CONNECT_TIMEOUT_MS);
      this.stream = this.connecting && primary !== undefined ? this.#open(primary) : new Socket().destroy();
      if (primary === undefined) this.firstError = watch.problem;
      this.stream.once("error", (error) => {
        this.firstError = error;
      });
      return this.stream;
    }

    /** At once: a server that is gone without a word would never answer the end of the connection. */
    override disconnect(): void {
      this.connecting = false;
      this.stream?.destroy();
    }

    #open(primary: RedisHost): Socket {
      const stream = this.#tls ? connectTls({ ...primary, ...this.#tls }) : connect({ ...primary });
      this.#forgetChanges();
      this.#forgetChanges = watch.onChange(() => {
        const now = watch.primary;
        if (now !== undefined && hostText(now) !== hostText(primary)) stream.destroy();
      });
      stream.once("close", this.#forgetChanges);
      return stream;
    }
  };
}

/** Waits for a primary. Undefined if none is named in time. */
async function named(watch: PrimaryWatch, timeoutMs: number): Promise<RedisHost | undefined> {
  if (watch.primary !== undefined) return watch.primary;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, timeoutMs);
  const forget = watch.onChange(resolve);
  await promise;
  clearTimeout(timer);
  forget();
  return watch.primary;
}
