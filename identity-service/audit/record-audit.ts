import type { TransactionSql } from "#kit/database/postgres.ts";
import { auditActorOf, type CallContext, traceIdOf } from "#kit/rpc/call-context.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import { type ClientOrigin, storableOrigin } from "./client-origin.ts";
import { insertSecurityEvents, type SecurityEvent, type SecurityEventType } from "./security-event-store.ts";

export interface RecordAuditDeps {
  now: () => Date;
  newId: () => string;
}

export interface AccountEvent extends Partial<ClientOrigin> {
  type: SecurityEventType;
  userId: string;
  /** Proven by a link or password, without an access token. */
  byOwner?: boolean;
  /** No personal data. */
  reason?: string;
  errorCode?: ErrorCode;
  erasedEmail?: string;
}

/** Call in the transaction of the cause. Holds ids only, so that an erasure leaves no personal data. */
export function recordAudit(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  event: AccountEvent,
  context: CallContext,
): Promise<void> {
  return recordAuditOfMany(tx, deps, [event], context);
}

export async function recordAuditOfMany(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  events: readonly AccountEvent[],
  context: CallContext,
): Promise<void> {
  if (events.length === 0) return;
  await insertSecurityEvents(
    tx,
    events.map((event) => securityEventOf(deps, event, context)),
  );
}

function securityEventOf(deps: RecordAuditDeps, event: AccountEvent, context: CallContext): SecurityEvent {
  const actor = context.actor && auditActorOf(context.actor);
  const {
    type,
    userId,
    byOwner = false,
    reason = "",
    errorCode = null,
    clientIp = "",
    userAgent = "",
    erasedEmail = null,
  } = event;
  return {
    id: deps.newId(),
    type,
    userId,
    actorId: actor?.userId ?? (byOwner ? userId : null),
    actorRole: actor?.role ?? null,
    person: context.person ?? null,
    sessionId: actor?.sessionId ?? null,
    reason,
    errorCode,
    ...storableOrigin({ clientIp, userAgent }),
    requestId: context.requestId,
    traceId: traceIdOf(context),
    occurredAt: deps.now(),
    erasedEmail,
  };
}
