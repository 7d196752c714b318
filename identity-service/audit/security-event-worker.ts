import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import { type Repetition, repeat } from "../../service-kit/repeat.ts";
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

const POLL_INTERVAL_MS = 1_000;
/** Longer than `record` takes to give up. */
const LEASE_MS = 15_000;
const MAX_BATCH = 50;
/** A poll delivers no more than these; the next one goes on. */
const MAX_BATCHES = 20;
const MAX_DELETED = 1_000;
/** Recorded events are kept a day, for whoever compares the two. */
const KEPT_MS = 24 * 3_600_000;

/** Brings security events to the audit log. Any number of replicas may. */
export class SecurityEventWorker {
  readonly #deps: SecurityEventWorkerDeps;
  #waiting: { count: number; oldest: Date | undefined } = { count: 0, oldest: undefined };
  #polling: Repetition | undefined;

  constructor(deps: SecurityEventWorkerDeps, metrics: Metrics) {
    this.#deps = deps;
    metrics.gauge(
      "gatehouse_security_events_waiting",
      "Security events that audit-service has not taken, counted to 10,000.",
      [],
      (gauge) => gauge.set(this.#waiting.count),
    );
    metrics.gauge(
      "gatehouse_outbox_lag_seconds",
      "Age of the oldest security event that was not delivered; 0 if all were.",
      [],
      (gauge) => gauge.set(this.#lagMs() / 1_000),
    );
  }

  start(): void {
    this.#polling = repeat("security events", POLL_INTERVAL_MS, () => this.poll(), this.#deps.logger);
  }

  async stop(): Promise<void> {
    await this.#polling?.stop();
  }

  /** Delivers what is due. What fails is tried again when its lease ends. */
  async poll(): Promise<void> {
    const { sql, now } = this.#deps;
    for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
      const nowMs = now().getTime();
      const leaseEnd = new Date(nowMs + LEASE_MS);
      const events = await claimDueEvents(sql, { now: new Date(nowMs), leaseEnd, limit: MAX_BATCH });
      const delivered = await Promise.all(events.map((event) => this.#deliver(event)));
      if (events.length < MAX_BATCH || delivered.includes(false)) break;
    }
    await deleteRecordedEvents(sql, new Date(now().getTime() - KEPT_MS), MAX_DELETED);
    this.#waiting = await selectWaitingEvents(sql);
  }

  #lagMs(): number {
    const { oldest } = this.#waiting;
    return oldest === undefined ? 0 : Math.max(0, this.#deps.now().getTime() - oldest.getTime());
  }

  async #deliver(event: SecurityEvent): Promise<boolean> {
    const { sql, record, eraseClaimedEmail, now, logger } = this.#deps;
    try {
      await record(event);
      if (event.erasedEmail !== null) await eraseClaimedEmail(event.erasedEmail);
      await markEventRecorded(sql, event.id, now());
      return true;
    } catch (error) {
      logger.warn({ err: error, event: event.id }, "security event not recorded; it is tried again");
      return false;
    }
  }
}
