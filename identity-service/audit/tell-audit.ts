import { type CallContext, traceIdOf } from "../../service-kit/call-context.ts";
import type { ErrorCode } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { insertSecurityEvent, type SecurityEventType } from "./security-event-store.ts";

const MAX_IP_CHARACTERS = 45;
const MAX_USER_AGENT_CHARACTERS = 512;

export interface TellAuditDeps {
  now: () => Date;
  newId: () => string;
}

export interface AccountEvent {
  type: SecurityEventType;
  userId: string;
  /** Whether a link or password has just proven the owner, without an access token. */
  byOwner?: boolean;
  /** Must not contain personal data. */
  reason?: string;
  errorCode?: ErrorCode;
  clientIp?: string;
  userAgent?: string;
  erasedEmail?: string;
}

/** Call in the transaction of the cause. Contains ids only, so that an erasure leaves no personal data there. */
export async function tellAudit(
  tx: TransactionSql,
  deps: TellAuditDeps,
  event: AccountEvent,
  context: CallContext,
): Promise<void> {
  const { actor, requestId } = context;
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
    ip: clientIp.slice(0, MAX_IP_CHARACTERS),
    userAgent: userAgent.replaceAll("\0", "").slice(0, MAX_USER_AGENT_CHARACTERS).toWellFormed(),
    requestId,
    traceId: traceIdOf(context),
    occurredAt: deps.now(),
    erasedEmail,
  });
}
