import { openRedis, type RedisSettings, watchPrimary } from "#kit/redis/redis-connection.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { RevocationBell } from "./revocation-bell.ts";

export interface RedisBellOptions extends RedisSettings {
  logger: Logger;
  metrics: Metrics;
}

const CHANNEL = "gatehouse:revocations";
const HEARTBEAT_INTERVAL_MS = 5_000;

type Part = "publisher" | "subscriber";

/** The sender hears its own rings. */
export function createRedisBell(options: RedisBellOptions): RevocationBell {
  const watch = watchPrimary(options, "gatehouse-revocations");
  const publisher = openRedis(options, "gatehouse-revocations-publisher", watch);
  const subscriber = openRedis(options, "gatehouse-revocations-subscriber", watch);
  const listeners: (() => void)[] = [];
  const working: Record<Part, boolean> = { publisher: false, subscriber: false };
  let known: "nothing" | "connected" | "away" = "nothing";
  let isClosed = false;

  function wake(): void {
    for (const listener of listeners) queueMicrotask(listener);
  }

  function note(part: Part, works: boolean, error?: unknown): void {
    if (isClosed) return;
    working[part] = works;
    if (working.publisher && working.subscriber) {
      if (known !== "connected")
        options.logger.info("Redis connected: replicas learn of revocations at once");
      known = "connected";
    } else if (!works && known !== "away") {
      options.logger.warn({ err: error, part }, "Redis away: replicas poll for revocations");
      known = "away";
    }
  }

  async function subscribe(): Promise<void> {
    try {
      await subscriber.subscribe(CHANNEL);
      note("subscriber", true);
      wake(); // Rings may have been missed.
    } catch (error) {
      note("subscriber", false, error);
    }
  }

  let isPublishing = false;
  let isOwed = false;
  /** Rings have no content: one pending is enough. */
  async function publish(): Promise<void> {
    isOwed = isPublishing;
    if (isPublishing) return;
    isPublishing = true;
    try {
      await publisher.publish(CHANNEL, "");
      note("publisher", true);
    } catch (error) {
      note("publisher", false, error);
    }
    isPublishing = false;
    if (isOwed && publisher.status === "ready") void publish();
  }

  function beat(): void {
    // An unanswered ping ends the connection.
    for (const connection of [publisher, subscriber]) {
      if (connection.status === "ready") connection.ping().catch(() => undefined);
    }
    // Redis may accept the subscription now.
    if (subscriber.status === "ready" && !working.subscriber) void subscribe();
  }

  for (const [part, connection] of [
    ["publisher", publisher],
    ["subscriber", subscriber],
  ] as const) {
    connection.on("error", (error) => note(part, false, error));
    connection.on("close", () => note(part, false, new Error("the connection was closed")));
    connection.connect().catch(() => undefined); // The events report errors.
  }
  publisher.on("ready", () => note("publisher", true));
  subscriber.on("ready", () => void subscribe());
  subscriber.on("message", wake);
  const heartbeat = setInterval(beat, HEARTBEAT_INTERVAL_MS).unref();
  options.metrics.gauge(
    "gatehouse_redis_connected",
    "1 while Redis announces revocations to replicas.",
    [],
    (gauge) => gauge.set(working.publisher && working.subscriber ? 1 : 0),
  );

  return {
    ring() {
      if (!isClosed && publisher.status === "ready") void publish();
    },
    onRing(listener) {
      listeners.push(listener);
    },
    async close() {
      isClosed = true;
      clearInterval(heartbeat);
      listeners.length = 0;
      publisher.disconnect();
      subscriber.disconnect();
      watch?.close();
    },
  };
}
