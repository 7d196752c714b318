import { OutboxWorker } from "#kit/database/outbox.ts";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import {
  claimDueEvents,
  type Deliveries,
  type DueEvent,
  markEventDelivered,
  oldestUndelivered,
  type SecurityEvent,
} from "./security-event-store.ts";

export interface SecurityEventDeliveryDeps {
  sql: Sql;
  /** Resolves once the audit log has committed the event. */
  record: (event: SecurityEvent) => Promise<void>;
  /** Resolves once the notice is committed. Idempotent. */
  notify: (event: SecurityEvent) => Promise<void>;
  now: () => Date;
  logger: Logger;
}

export function createSecurityEventDelivery({
  sql,
  record,
  notify,
  now,
  logger,
}: SecurityEventDeliveryDeps): OutboxWorker<DueEvent, Deliveries> {
  async function hasTaken(receiver: string, send: typeof record, event: SecurityEvent): Promise<boolean> {
    try {
      await send(event);
      return true;
    } catch (error) {
      logger.warn(
        { err: error, receiver, event: event.id },
        "security event not delivered; it will be retried",
      );
      return false;
    }
  }

  return new OutboxWorker({
    what: "security events",
    pollIntervalMs: 2_000,
    leaseMs: 15_000,
    maxBatch: 50,
    claim: (lease) => claimDueEvents(sql, lease),
    async deliver({ isRecorded, isNotified, ...event }) {
      const deliveries = await Promise.all([
        isRecorded || hasTaken("audit-service", record, event),
        isNotified || hasTaken("identity-service", notify, event),
      ]);
      if (deliveries[0] === isRecorded && deliveries[1] === isNotified)
        throw new Error("no receiver accepted it");
      return { isRecorded: deliveries[0], isNotified: deliveries[1] };
    },
    mark: ({ id }, deliveries) => markEventDelivered(sql, id, deliveries),
    backlog: async () => ({ oldest: await oldestUndelivered(sql) }),
    now,
    logger,
  });
}

/** @param outboxes of all parts. */
export function measureOutboxes(
  metrics: Metrics,
  outboxes: readonly { readonly oldestAgeS: number }[],
): void {
  metrics.gauge(
    "gatehouse_outbox_lag_seconds",
    "Age of the oldest security event that was not delivered; 0 if all were.",
    [],
    (gauge) => gauge.set(Math.max(...outboxes.map(({ oldestAgeS }) => oldestAgeS))),
  );
}
