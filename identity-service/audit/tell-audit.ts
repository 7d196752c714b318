import { type CallContext, traceIdOf } from "../../service-kit/call-context.ts";
import type { ErrorCode } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { insertSecurityEvent, type SecurityEventType } from "./security-event-store.ts";

const MAX_IP_CHARACTERS = 45;
const MAX_USER_AGENT_CHARACTERS = 512;

export interface TellAuditDeps {
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
}

/** What happened to an account. */
export interface AccountEvent {
  type: SecurityEventType;
  userId: string;
  /** The owner has just proven to be it, without an access token: by a link, or by the password at login. */
  byOwner?: boolean;
  /** What it was or why, in our words; never anything personal. */
  reason?: string;
  /** Of what failed. */
  errorCode?: ErrorCode;
  clientIp?: string;
  userAgent?: string;
  /** Address of a deleted account: who has claimed it is forgotten, too. */
  erasedEmail?: string;
}

/**
 * Leaves word for the audit log in the transaction of the cause, so that no loss of a gateway hides it. It names ids
 * only: an erasure here leaves nothing personal there.
 */
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
