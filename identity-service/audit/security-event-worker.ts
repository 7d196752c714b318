import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { OutboxWorker } from "../../service-kit/outbox.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import {
  claimDueEvents,
  deleteRecordedEvents,
  markEventRecorded,
  type SecurityEvent,
  selectWaitingEvents,
} from "./security-event-store.ts";

export interface SecurityEventWorkerDeps {
  sql: Sql;
  /** Writes the event into the audit log; resolves once that is committed. Takes the same event twice and keeps one. */
  record: (event: SecurityEvent) => Promise<void>;
  /** Has the audit log forget who claimed an address. Safe to repeat. */
  eraseClaimedEmail: (email: string) => Promise<void>;
  now: () => Date;
  logger: Logger;
}

/** Recorded events are kept a day, for whoever compares the two. */
const KEPT_MS = 24 * 3_600_000;

/** Brings security events to the audit log. */
export function createSecurityEventWorker(
  { sql, record, eraseClaimedEmail, now, logger }: SecurityEventWorkerDeps,
  metrics: Metrics,
): OutboxWorker<SecurityEvent> {
  const worker = new OutboxWorker({
    what: "security events",
    pollIntervalMs: 1_000,
    leaseMs: 15_000, // longer than `record` takes to give up
    maxBatch: 50,
    claim: (lease) => claimDueEvents(sql, { ...lease, now: now() }),
    async deliver(event) {
      await record(event);
      if (event.erasedEmail !== null) await eraseClaimedEmail(event.erasedEmail);
    },
    mark: ({ id }) => markEventRecorded(sql, id, now()),
    forget: (limit) => deleteRecordedEvents(sql, new Date(now().getTime() - KEPT_MS), limit),
    backlog: () => selectWaitingEvents(sql),
    now,
    logger,
  });
  metrics.gauge(
    "gatehouse_security_events_waiting",
    "Security events that audit-service has not taken, counted to 10,000.",
    [],
    (gauge) => gauge.set(worker.backlogCount),
  );
  metrics.gauge(
    "gatehouse_outbox_lag_seconds",
    "Age of the oldest security event that was not delivered; 0 if all were.",
    [],
    (gauge) => gauge.set(worker.oldestAgeS),
  );
  return worker;
}
