import type { Redis } from "ioredis";
import { hostText } from "../config/redis-url.ts";
import type { Logger } from "../telemetry/logger.ts";
import { openRedis, watchPrimary } from "./redis-connection.ts";
import type { RedisSettings } from "./redis-settings.ts";

/** Callers must have a fallback. */
export interface SharedRedis {
  readonly isConnected: boolean;
  /**
   * Milliseconds of `performance.now()` since when this server is used without a break: over the same connection and, with
   * sentinels, as the primary of most of them. Undefined without one.
   */
  readonly connectedAtMs: number | undefined;
  /** @returns undefined without an answer in time. Never throws. */
  ask<T>(work: (redis: Redis) => Promise<T>): Promise<T | undefined>;
  close(): void;
}

export interface SharedRedisOptions extends RedisSettings {
  name: string;
  /** Log text: `logins are throttled`. */
  what: string;
  logger: Logger;
  onAnswer?: () => void;
  /** Defaults to 150. A client's call has one second in total. */
  answerTimeoutMs?: number;
}

const ANSWER_TIMEOUT_MS = 150;
const PAUSE_MS = 1_000;
/** Of a Redis Cluster node for keys of other nodes. */
const CLUSTER_ERROR = /^(?:MOVED|ASK|CLUSTERDOWN|CROSSSLOT)\b/;

export function openSharedRedis(options: SharedRedisOptions): SharedRedis {
  const { what, logger, onAnswer = () => undefined, answerTimeoutMs = ANSWER_TIMEOUT_MS } = options;
  const watch = watchPrimary(options, options.name);
  const redis = openRedis(options, options.name, watch);
  let known: "nothing" | "connected" | "away" = "nothing";
  let leftAloneUntilMs = 0;
  let connectedAtMs: number | undefined;
  let isClosed = false;

  function note(works: boolean, error?: unknown): void {
    if (works) onAnswer();
    if (isClosed || known === (works ? "connected" : "away")) return;
    known = works ? "connected" : "away";
    const primary = watch?.primary && { primary: hostText(watch.primary) };
    if (works) logger.info({ ...primary }, `Redis connected: ${what} by all replicas together`);
    else if (error instanceof Error && CLUSTER_ERROR.test(error.message))
      logger.error(
        { err: error },
        `REDIS_URL names a node of a Redis Cluster, which is not supported: ${what} by each replica for itself`,
      );
    else logger.warn({ err: error, ...primary }, `Redis away: ${what} by each replica for itself`);
  }

  /** Without one, that of the connection may be a former primary. */
  const hasPrimary = () => watch === undefined || watch.primary !== undefined;

  redis.on("error", (error) => note(false, error));
  redis.on("close", () => {
    connectedAtMs = undefined;
    note(false, new Error("the connection was closed"));
  });
  redis.on("ready", () => {
    connectedAtMs = performance.now();
    leftAloneUntilMs = 0;
    note(true);
  });
  watch?.onChange(() => {
    if (watch.primary === undefined) note(false, watch.problem);
    else if (redis.status === "ready") note(true);
  });
  redis.connect().catch(() => undefined); // The event handlers report it.

  return {
    get isConnected() {
      return known === "connected" && hasPrimary();
    },
    get connectedAtMs() {
      if (watch === undefined || connectedAtMs === undefined) return connectedAtMs;
      return watch.sinceMs === undefined ? undefined : Math.max(connectedAtMs, watch.sinceMs);
    },
    async ask(work) {
      if (redis.status !== "ready" || performance.now() < leftAloneUntilMs) return undefined;
      if (!hasPrimary()) return undefined;
      try {
        const answer = await inTime(work(redis), answerTimeoutMs);
        note(true);
        return answer;
      } catch (error) {
        leftAloneUntilMs = performance.now() + PAUSE_MS;
        note(false, error);
        return undefined;
      }
    },
    close() {
      isClosed = true;
      redis.disconnect();
      watch?.close();
    },
  };
}

async function inTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
