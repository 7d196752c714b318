/** Who acted: from the verified token only, except the claimed e-mail of an anonymous caller. */
export interface AuditActor {
  userId?: string;
  role?: string;
  sessionId?: string;
  claimedEmail?: string;
}

/** What the intent and the outcome of one call have in common. */
export interface AuditedCall {
  /** UUID that both entries carry. */
  callId: string;
  actor: AuditActor;
  clientIp: string;
  userAgent: string;
  /** HTTP method. */
  method: string;
  /** Route pattern, never the raw path. */
  route: string;
  /** Id of the thing acted on; empty if there is none. */
  resource: string;
  /** `auth.login`, `payments.create`, …. */
  action: string;
  requestId: string;
  traceId: string;
}

export interface AuditIntent extends AuditedCall {
  kind: "intent";
}

export interface AuditOutcome extends AuditedCall {
  kind: "outcome";
  outcome: "success" | "failure" | "unknown";
  /** Error code of a failure. */
  errorCode?: string;
  httpStatus: number;
  latencyUs: number;
}

/** One audit entry about a call. Never holds a body, password, token, code or secret. */
export type AuditEntry = AuditIntent | AuditOutcome;

/** Something that a service did or noticed by itself. Stands alone. */
export interface AuditEvent {
  kind: "event";
  /** UUID. Recorded again under the same id, by whichever process, it is stored once: outboxes rely on that. */
  id: string;
  occurredAt: Date;
  actor: AuditActor;
  /** Empty if no client was involved; so is `userAgent`. */
  clientIp: string;
  userAgent: string;
  /** Id of the thing acted on; empty if there is none. */
  resource: string;
  /** `session.refresh_reused`, `key.rotated`, …. */
  action: string;
  requestId: string;
  traceId: string;
  outcome: "success" | "failure" | "unknown";
  /** Error code of a failure. */
  errorCode?: string;
  /** Why, in the words of who caused it; at most 200 characters are kept. */
  reason?: string;
}

/** Sends entries to audit-service, in order, until each is acknowledged. */
export interface AuditRecorder {
  /**
   * Resolves once the entry is committed.
   *
   * @throws {DomainError} `audit_unavailable` if the queue is full or `deadlineMs` passes first. The entry may
   *   still be stored later: an intent without outcome is the honest record of that.
   */
  record(entry: AuditEntry, deadlineMs: number): Promise<void>;
  /** Takes the entry into the bounded queue, to be resent until acknowledged. @throws {DomainError} `audit_unavailable` if the queue is full. */
  enqueue(entry: AuditEntry): void;
  /** Throws while nothing can be recorded: a readiness check. */
  assertReady(): void;
  /** Waits at most `graceMs` for what is queued, then gives up and closes. */
  close(graceMs: number): Promise<void>;
}

/** Sends events besides: for services that tell of themselves. */
export interface AuditEventRecorder extends AuditRecorder {
  /**
   * Resolves once the event is committed. Safe to repeat, also from another process.
   *
   * @throws {DomainError} `audit_unavailable` as `record` does.
   */
  recordEvent(event: AuditEvent, deadlineMs: number): Promise<void>;
}
