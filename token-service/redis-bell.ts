import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { openRedis, type RedisSettings } from "../service-kit/redis-connection.ts";
import type { RevocationBell } from "./revocation-bell.ts";

export interface RedisBellOptions extends RedisSettings {
  logger: Logger;
  metrics: Metrics;
}

const CHANNEL = "gatehouse:revocations";
/** A connection that died without a word is noticed within this and the time-out of an answer. */
const HEARTBEAT_INTERVAL_MS = 5_000;

type Part = "publisher" | "subscriber";

/**
 * A bell over Redis pub/sub, for several replicas. While Redis is away rings are lost and replicas follow by
 * polling; once it is back this bell rings for whatever was missed. Who rings also hears it. The log has one line
 * when Redis is reached, one when it is lost, however often the connections try.
 */
export function createRedisBell(options: RedisBellOptions): RevocationBell {
  const publisher = openRedis(options, "gatehouse-revocations-publisher");
  const subscriber = openRedis(options, "gatehouse-revocations-subscriber");
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
      if (known !== "connected") options.logger.info("Redis connected: revocations spread at once");
      known = "connected";
    } else if (!works && known !== "away") {
      options.logger.warn({ err: error, part }, "Redis away: revocations spread by polling");
      known = "away";
    }
  }

  async function subscribe(): Promise<void> {
    try {
      await subscriber.subscribe(CHANNEL);
      note("subscriber", true);
      wake(); // for rings of before
    } catch (error) {
      note("subscriber", false, error);
    }
  }

  let isPublishing = false;
  let isOwed = false;
  /** One ring under way and at most one owed: they carry nothing, so any number of them is one. */
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
    // An answer proves nothing that the events do not tell; none within its time ends the connection.
    for (const connection of [publisher, subscriber]) {
      if (connection.status === "ready") connection.ping().catch(() => undefined);
    }
    // Not subscribed although connected: Redis refused it, and may have changed its mind.
    if (subscriber.status === "ready" && !working.subscriber) void subscribe();
  }

  for (const [part, connection] of [
    ["publisher", publisher],
    ["subscriber", subscriber],
  ] as const) {
    connection.on("error", (error) => note(part, false, error));
    connection.on("close", () => note(part, false, new Error("the connection was closed")));
    connection.connect().catch(() => undefined); // told by the events; tried again by itself
  }
  publisher.on("ready", () => note("publisher", true));
  subscriber.on("ready", () => void subscribe());
  subscriber.on("message", wake);
  const heartbeat = setInterval(beat, HEARTBEAT_INTERVAL_MS).unref();
  options.metrics.gauge("gatehouse_redis_connected", "1 while revocations spread by Redis.", [], (gauge) =>
    gauge.set(working.publisher && working.subscriber ? 1 : 0),
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
    },
  };
}
