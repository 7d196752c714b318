import { v5 as uuidv5 } from "uuid";
import type { AuditEvent, AuditEventRecorder } from "#audit-client/stream/audit-entry.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { markPauseTold, selectUntoldPauses, type UntoldPause } from "../endpoints/endpoint-store.ts";

/** From it and the pause the id of its event is made (RFC 9562 section 5.5). */
const NAMESPACE = "8a6f4c0e-58b1-4d5c-9a3e-3f5f1a6f0b7d";
const TIMEOUT_MS = 3_000;
const MAX_AT_ONCE = 20;

interface Pause extends UntoldPause {
  /** UUID, the same each time. */
  eventId: string;
}

export interface TellPausesDeps {
  sql: Sql;
  recorder: AuditEventRecorder;
  /** Writes to the owner. Idempotent by the id. */
  notifyOwner(pause: Pause & { ownerId: string }): Promise<void>;
}

/** Records each pause that nobody asked for in the audit log, and writes to the owner of the webhook. The caller repeats it. */
export async function tellPauses({ sql, recorder, notifyOwner }: TellPausesDeps): Promise<void> {
  for (const untold of await selectUntoldPauses(sql, MAX_AT_ONCE)) {
    const { id, ownerId, pausedAt, reason } = untold;
    const pause = { ...untold, eventId: uuidv5(`${id} ${pausedAt.toISOString()}`, NAMESPACE) };
    const event: AuditEvent = {
      ...{
        kind: "event",
        id: pause.eventId,
        occurredAt: pausedAt,
        action: "webhook.paused",
        outcome: "failure",
      },
      ...{ actor: {}, resource: id, reason, clientIp: "", userAgent: "", requestId: "", traceId: "" },
    };
    await recorder.recordEvent(event, Date.now() + TIMEOUT_MS);
    if (ownerId !== null) await notifyOwner({ ...pause, ownerId });
    await markPauseTold(sql, id, pausedAt);
  }
}
