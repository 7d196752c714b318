import type { Redis } from "ioredis";
import type { PrimaryWatch } from "#kit/redis/primary-watch.ts";
import { openRedis, watchPrimary } from "#kit/redis/redis-connection.ts";
import type { RedisSettings } from "#kit/redis/redis-settings.ts";
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
export class RedisBell implements RevocationBell {
  readonly #logger: Logger;
  readonly #watch: PrimaryWatch | undefined;
  readonly #publisher: Redis;
  readonly #subscriber: Redis;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #listeners: (() => void)[] = [];
  readonly #working: Record<Part, boolean> = { publisher: false, subscriber: false };
  #known: "nothing" | "connected" | "away" = "nothing";
  #isPublishing = false;
  #isOwed = false;
  #isClosed = false;

  constructor(options: RedisBellOptions) {
    this.#logger = options.logger;
    this.#watch = watchPrimary(options, "gatehouse-revocations");
    this.#publisher = openRedis(options, "gatehouse-revocations-publisher", this.#watch);
    this.#subscriber = openRedis(options, "gatehouse-revocations-subscriber", this.#watch);
    this.#connect("publisher", this.#publisher);
    this.#connect("subscriber", this.#subscriber);
    this.#publisher.on("ready", () => this.#note("publisher", true));
    this.#subscriber.on("ready", () => void this.#subscribe());
    this.#subscriber.on("message", () => this.#wake());
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_INTERVAL_MS).unref();
    options.metrics.gauge(
      "gatehouse_redis_connected",
      "1 while Redis announces revocations to replicas.",
      [],
      (gauge) => gauge.set(Number(this.#isConnected)),
    );
  }

  ring(): void {
    if (!this.#isClosed && this.#publisher.status === "ready") void this.#publish();
  }

  onRing(listener: () => void): void {
    this.#listeners.push(listener);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#heartbeat);
    this.#listeners.length = 0;
    this.#publisher.disconnect();
    this.#subscriber.disconnect();
    this.#watch?.close();
  }

  get #isConnected(): boolean {
    return this.#working.publisher && this.#working.subscriber;
  }

  #connect(part: Part, connection: Redis): void {
    connection.on("error", (error) => this.#note(part, false, error));
    connection.on("close", () => this.#note(part, false, new Error("the connection was closed")));
    connection.connect().catch(() => undefined); // The events report errors.
  }

  #note(part: Part, works: boolean, error?: unknown): void {
    if (this.#isClosed) return;
    this.#working[part] = works;
    if (this.#isConnected) {
      if (this.#known !== "connected")
        this.#logger.info("Redis connected: replicas learn of revocations at once");
      this.#known = "connected";
    } else if (!works && this.#known !== "away") {
      this.#logger.warn({ err: error, part }, "Redis away: replicas poll for revocations");
      this.#known = "away";
    }
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#subscriber.subscribe(CHANNEL);
      this.#note("subscriber", true);
      this.#wake(); // Rings may have been missed.
    } catch (error) {
      this.#note("subscriber", false, error);
    }
  }

  #wake(): void {
    for (const listener of this.#listeners) queueMicrotask(listener);
  }

  /** Rings have no content: one pending is enough. */
  async #publish(): Promise<void> {
    this.#isOwed = this.#isPublishing;
    if (this.#isPublishing) return;
    this.#isPublishing = true;
    try {
      await this.#publisher.publish(CHANNEL, "");
      this.#note("publisher", true);
    } catch (error) {
      this.#note("publisher", false, error);
    }
    this.#isPublishing = false;
    if (this.#isOwed && this.#publisher.status === "ready") void this.#publish();
  }

  #beat(): void {
    // An unanswered ping ends the connection.
    for (const connection of [this.#publisher, this.#subscriber]) {
      if (connection.status === "ready") connection.ping().catch(() => undefined);
    }
    // Redis may accept the subscription now.
    if (this.#subscriber.status === "ready" && !this.#working.subscriber) void this.#subscribe();
  }
}
