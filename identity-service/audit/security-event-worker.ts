import type { AuditAction } from "#audit-client/stream/audit-actions.ts";
import { type AuditEvent, personActor } from "#audit-client/stream/audit-entry.ts";
import { OutboxWorker } from "#kit/database/outbox.ts";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import {
  claimDueEvents,
  deleteRecordedEvents,
  findEventBefore,
  markEventsRecorded,
  type SecurityEvent,
  type SecurityEventType,
  selectEventIds,
  selectWaitingEvents,
} from "./security-event-store.ts";

/** Kept for comparison with the audit log, and as marks of their transactions. */
const KEPT_MS = 24 * 3_600_000;
/** Earlier than any replica deletes them. */
const MARKED_MS = KEPT_MS - 3_600_000;

export function createSecurityEventWorker(
  {
    sql,
    record,
    eraseClaimedEmail,
    now,
    logger,
  }: {
    sql: Sql;
    /** Resolves once the audit log has committed it. Idempotent. */
    record: (event: SecurityEvent) => Promise<void>;
    /** Erases from the audit log who claimed an address. Idempotent. */
    eraseClaimedEmail: (email: string) => Promise<void>;
    now: () => Date;
    logger: Logger;
  },
  metrics: Metrics,
): OutboxWorker<SecurityEvent> {
  const mark = together((ids) => markEventsRecorded(sql, ids, now()));
  const worker = new OutboxWorker({
    what: "security events",
    pollIntervalMs: 1_000,
    leaseMs: 15_000, // Longer than `record` takes to give up.
    maxBatch: 200,
    claim: (lease) => claimDueEvents(sql, { ...lease, now: now() }),
    async deliver(event) {
      await record(event);
      if (event.erasedEmail !== null) await eraseClaimedEmail(event.erasedEmail);
    },
    mark: ({ id }) => mark(id),
    forget: (limit) => deleteRecordedEvents(sql, new Date(now().getTime() - KEPT_MS), limit),
    backlog: () => selectWaitingEvents(sql),
    now,
    logger,
  });
  metrics.gauge(
    "gatehouse_security_events_waiting",
    "Security events that audit-service has not stored yet, counted up to 10,000.",
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

/** A transaction that changes an account, a credential or an approval has an event in it. Without its event it was lost. */
export function createLostCommitsLook({ sql, now, logger }: { sql: Sql; now: () => Date; logger: Logger }) {
  return async (): Promise<void> => {
    const since = new Date(now().getTime() - MARKED_MS);
    const lost = await sql.commits.takeLost(since, (ids) => selectEventIds(sql, ids));
    const [first] = lost;
    if (first === undefined) return;
    const facts = { lost: lost.length, until: lost.at(-1)?.at };
    const kept = await findEventBefore(sql, first.id).catch(() => undefined); // Perhaps the database is away again.
    logger.error(
      { ...facts, after: kept?.occurredAt },
      "the database has lost commits: changes of accounts and uses of approvals are undone",
    );
  };
}

/** Those that are acknowledged together are marked together: a commit for each would be most of the work. */
function together(markAll: (ids: readonly string[]) => Promise<void>): (id: string) => Promise<void> {
  let next: { ids: string[]; done: Promise<void> } | undefined;
  return (id) => {
    if (next === undefined) {
      const batch: string[] = [];
      const done = new Promise((resolve) => setImmediate(resolve)).then(() => {
        next = undefined;
        return markAll(batch);
      });
      next = { ids: batch, done };
    }
    next.ids.push(id);
    return next.done;
  };
}

export function toAuditEvent(event: SecurityEvent): AuditEvent {
  const { id, type, userId, actorId, person, actorRole, sessionId, reason, errorCode, clientIp, userAgent } =
    event;
  const { requestId, traceId, occurredAt } = event;
  return {
    kind: "event",
    id,
    occurredAt,
    actor:
      person === null
        ? {
            ...(actorId && { userId: actorId }),
            ...(actorRole && { role: actorRole }),
            ...(sessionId && { sessionId }),
          }
        : personActor(person),
    clientIp,
    userAgent,
    resource: userId,
    action: actionOf(type),
    ...(reason !== "" && { reason }),
    requestId,
    traceId,
    ...(errorCode === null ? { outcome: "success" } : { outcome: "failure", errorCode }),
  };
}

const OF_CLIENT = "client_";

type ActionOf<Type extends string> = Type extends `${typeof OF_CLIENT}${infer Event}`
  ? `client.${Event}`
  : `user.${Type}`;

function actionOf(type: SecurityEventType): AuditAction {
  const action = type.startsWith(OF_CLIENT) ? `client.${type.slice(OF_CLIENT.length)}` : `user.${type}`;
  return action as ActionOf<SecurityEventType>;
}
