import { auditActorOf, type CallContext, traceIdOf } from "../../service-kit/call-context.ts";
import type { ErrorCode } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { type ClientOrigin, storableOrigin } from "./client-origin.ts";
import { insertSecurityEvent, type SecurityEventType } from "./security-event-store.ts";

export interface TellAuditDeps {
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
export async function tellAudit(
  tx: TransactionSql,
  deps: TellAuditDeps,
  event: AccountEvent,
  context: CallContext,
): Promise<void> {
  const { requestId } = context;
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
  await insertSecurityEvent(tx, {
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
    requestId,
    traceId: traceIdOf(context),
    occurredAt: deps.now(),
    erasedEmail,
  });
}
