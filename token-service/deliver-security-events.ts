import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import {
  claimDueEvents,
  type DueEvent,
  markEventNotified,
  markEventRecorded,
  type SecurityEvent,
} from "./security-event-store.ts";

export interface DeliverSecurityEventsDeps {
  sql: Sql;
  /** Writes the event into the audit log; resolves once that is committed. */
  record: (event: SecurityEvent) => Promise<void>;
  /** Has the user told; resolves once that is committed. Takes the same event twice without telling twice. */
  notify: (event: SecurityEvent) => Promise<void>;
  logger: Logger;
}

const LEASE_MS = 15_000;
const MAX_BATCH = 50;

/** Delivers what is due, to each receiver by itself: the one that is away does not hold up the other. */
export async function deliverSecurityEvents(deps: DeliverSecurityEventsDeps): Promise<void> {
  for (;;) {
    const events = await claimDueEvents(deps.sql, LEASE_MS, MAX_BATCH);
    await Promise.all(events.map((event) => deliver(deps, event)));
    if (events.length < MAX_BATCH) return;
  }
}

async function deliver(deps: DeliverSecurityEventsDeps, event: DueEvent): Promise<void> {
  const { isRecorded, isNotified, ...facts } = event;
  await Promise.all([
    isRecorded || attempt(deps, event, "audit-service", () => deps.record(facts), markEventRecorded),
    isNotified || attempt(deps, event, "identity-service", () => deps.notify(facts), markEventNotified),
  ]);
}

async function attempt(
  deps: DeliverSecurityEventsDeps,
  event: SecurityEvent,
  receiver: string,
  send: () => Promise<void>,
  mark: (sql: Sql, id: string) => Promise<void>,
): Promise<void> {
  try {
    await send();
    await mark(deps.sql, event.id);
  } catch (error) {
    deps.logger.warn(
      { err: error, receiver, event: event.id },
      "security event not delivered; it is tried again",
    );
  }
}
