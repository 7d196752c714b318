import { randomUUID } from "node:crypto";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { ReachableNetwork } from "#outbound-http/outbound-http.ts";
import { headerIn, type SecretKeys, secretsInUse } from "../endpoints/endpoint.ts";
import {
  type CourierEndpoint,
  claimEndpoints,
  deleteEndpoint,
  lockHeld,
  makeWaitingDue,
  releaseEndpoints,
  updateCourierState,
} from "../endpoints/endpoint-store.ts";
import type { EventSource } from "../stream/event-source.ts";
import { STREAM_UPDATED, signalsIn } from "../stream/signal.ts";
import {
  asPushedToken,
  asWebhook,
  createSender,
  type Dress,
  type Sender,
  type SignSignals,
} from "./attempt.ts";
import { Courier, type CourierBatch } from "./courier.ts";
import {
  deleteOldDeliveries,
  selectDue,
  selectWaiting,
  summarizeWaiting,
  upsertDeliveries,
} from "./delivery-store.ts";

export interface CouriersDeps {
  sql: Sql;
  events: EventSource;
  keys: SecretKeys;
  networks: readonly ReachableNetwork[];
  sign: SignSignals;
  metrics: CourierMetrics;
  /** @throws {DomainError} `service_unavailable` while the process's clock is wrong: receivers refuse a signature of another time. */
  assertClock: () => void;
  now: () => Date;
  monotonicMs: () => number;
  random: () => number;
  logger: Logger;
}

export const HEARTBEAT_MS = 2_000;
const LEASE_MS = 10_000;
/** A courier stops before another replica may begin. */
const HOLD_MS = 7_000;
/** Of those that are done, for each endpoint. */
const KEPT_DELIVERIES = 1_000;
const PRUNE_AFTER = 500;

interface Running {
  courier: Courier;
  version: number;
  /** Then it signs with one secret alone. */
  formerSecretUntil: Date | null;
  done: Promise<void>;
}

/** The endpoints that this replica serves. Each is served by one replica at a time. */
export class Couriers {
  readonly #deps: CouriersDeps;
  readonly #holder = randomUUID();
  readonly #running = new Map<string, Running>();
  #heldAtMs = 0;

  constructor(deps: CouriersDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#running.size;
  }

  /** Since it last took its share, in seconds. It soon sends nothing more. */
  get lagS(): number {
    return (this.#deps.monotonicMs() - this.#heldAtMs) / 1_000;
  }

  /** To be repeated: takes its share of the endpoints, and what others leave. @throws without its database, or as `assertClock`. */
  async beat(): Promise<void> {
    const { sql, assertClock, monotonicMs, now } = this.#deps;
    assertClock();
    const askedMs = monotonicMs();
    const lease = { holder: this.#holder, leaseMs: LEASE_MS };
    const held = await transaction(sql, (tx) => claimEndpoints(tx, lease));
    this.#heldAtMs = askedMs;
    const byId = new Map(held.map((endpoint) => [endpoint.id, endpoint]));
    for (const [id, { courier, version, formerSecretUntil }] of this.#running) {
      const hasEnded = formerSecretUntil !== null && formerSecretUntil <= now();
      const endpoint = byId.get(id);
      if (hasEnded || endpoint?.version !== version) courier.stop();
      // Its receiver may have asked for a verification.
      else if (endpoint.kind === "push") courier.lookAgain();
    }
    for (const endpoint of held) {
      if (!this.#running.has(endpoint.id)) this.#start(endpoint);
    }
  }

  async stop(): Promise<void> {
    for (const { courier } of this.#running.values()) courier.stop();
    await Promise.all([...this.#running.values()].map(({ done }) => done));
    await releaseEndpoints(this.#deps.sql, this.#holder);
  }

  #start(endpoint: CourierEndpoint): void {
    const { id, version } = endpoint;
    const until = endpoint.formerSecretUntil;
    const formerSecretUntil = until !== null && until > this.#deps.now() ? until : null;
    const sender = this.#openSender(endpoint);
    if (sender === undefined) return;
    const courier = new Courier(endpoint, this.#depsOf(endpoint, sender));
    const done = courier.run().finally(() => {
      this.#running.delete(id);
      return sender.close();
    });
    this.#running.set(id, { courier, version, formerSecretUntil, done });
  }

  #openSender(endpoint: CourierEndpoint): Sender | undefined {
    const { networks, logger } = this.#deps;
    try {
      return createSender({ url: endpoint.url, networks }, this.#dressOf(endpoint));
    } catch (error) {
      logger.error({ err: error, endpoint: endpoint.id }, "a webhook cannot be served");
      return undefined;
    }
  }

  #dressOf(endpoint: CourierEndpoint): Dress {
    const { keys, sign, now } = this.#deps;
    const secrets = secretsInUse(keys, endpoint.id, endpoint, now());
    if (endpoint.clientId === null) return asWebhook(secrets);
    return asPushedToken(sign, endpoint.clientId, headerIn(secrets[0] ?? ""));
  }

  #depsOf(endpoint: CourierEndpoint, sender: Sender) {
    const { sql, events, metrics, now, random, logger } = this.#deps;
    const { id, kind, status } = endpoint;
    const waiting = { endpointId: id, type: status === "paused" ? STREAM_UPDATED : undefined };
    return {
      events: kind === "webhook" ? events : signalsIn(events),
      send: (event: Parameters<Sender["send"]>[0]) => sender.send(event),
      selectDue: (limit: number) => selectDue(sql, waiting, limit),
      selectFirstWaiting: () => selectWaiting(sql, waiting, 1),
      summarizeWaiting: () => summarizeWaiting(sql, waiting),
      save: this.#saver(endpoint),
      isHeld: () => this.#deps.monotonicMs() < this.#heldAtMs + HOLD_MS,
      onAttempt: metrics.onAttempt,
      now,
      random,
      logger,
    };
  }

  #saver(endpoint: CourierEndpoint) {
    const { sql, logger } = this.#deps;
    let sincePruned = 0;
    return async (batch: CourierBatch): Promise<boolean> => {
      const { deliveries, state } = batch;
      const isStored = await transaction(sql, async (tx) => {
        if (!(await lockHeld(tx, endpoint, this.#holder))) return false;
        if (state.pausedReason !== null && endpoint.isTemporary) return deleteEndpoint(tx, endpoint.id);
        if (deliveries.length > 0) await upsertDeliveries(tx, endpoint.id, deliveries);
        if (batch.isBack) await makeWaitingDue(tx, endpoint.id);
        await updateCourierState(tx, endpoint.id, state);
        return true;
      });
      sincePruned += deliveries.length;
      if (sincePruned >= PRUNE_AFTER) {
        sincePruned = 0;
        // The batch is stored, and must not be sent again for this.
        await deleteOldDeliveries(sql, endpoint.id, KEPT_DELIVERIES).catch((error: unknown) =>
          logger.warn({ err: error, endpoint: endpoint.id }, "old deliveries are removed later"),
        );
      }
      return isStored;
    };
  }
}

type CourierMetrics = ReturnType<typeof measureDeliveries>;

export function measureDeliveries(metrics: Metrics, now: () => Date) {
  const attempts = metrics.counter(
    "gatehouse_webhook_attempts_total",
    "Attempts to deliver an event, by result.",
    ["result"],
  );
  const delay = metrics.histogram(
    "gatehouse_webhook_delay_seconds",
    "From the log's taking an entry to the end of the first delivery of its event.",
    [],
  );
  return {
    onAttempt(
      { problem }: { problem: string },
      { attempts: before, receivedAt }: { attempts: number; receivedAt?: Date },
    ): void {
      attempts.inc({ result: problem || "delivered" });
      if (problem === "" && before === 0 && receivedAt !== undefined)
        delay.observe({}, (now().getTime() - receivedAt.getTime()) / 1_000);
    },
  };
}
