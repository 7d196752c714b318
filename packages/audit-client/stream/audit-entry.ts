/** Verified, except a claimed e-mail address. */
export interface AuditActor {
  userId?: string;
  role?: string;
  sessionId?: string;
  claimedEmail?: string;
}

export interface AuditedCall {
  /** UUID, the same in intent and outcome. */
  callId: string;
  actor: AuditActor;
  clientIp: string;
  userAgent: string;
  method: string;
  /** Route pattern, never the raw path. */
  route: string;
  resource: string;
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
  errorCode?: string;
  httpStatus: number;
  latencyUs: number;
  /** The approval that let the call through. */
  reason?: string;
}

/** Never holds a body, password, token, code or secret. */
export type AuditEntry = AuditIntent | AuditOutcome;

/** Stands alone: no call of the gateway. */
export interface AuditEvent
  extends Omit<AuditedCall, "callId" | "method" | "route">,
    Pick<AuditOutcome, "outcome" | "errorCode"> {
  kind: "event";
  /** UUID. Repetitions are stored once. */
  id: string;
  occurredAt: Date;
  reason?: string;
}

export interface AuditRecorder {
  /** @throws {DomainError} `audit_unavailable`. The entry may still be stored later. */
  record(entry: AuditEntry, deadlineMs: number): Promise<void>;
  /** @throws {DomainError} `audit_unavailable` if the queue is full. */
  enqueue(entry: AuditEntry): void;
}

export interface AuditEventRecorder {
  /** @throws as `AuditRecorder.record`. */
  recordEvent(event: AuditEvent, deadlineMs: number): Promise<void>;
}

/** In UTF-16 units. */
export const MAX_LENGTH = {
  id: 36,
  callId: 40,
  // `client:` and an id of 64 characters.
  userId: 80,
  role: 32,
  sessionId: 40,
  claimedEmail: 254,
  clientIp: 64,
  userAgent: 512,
  method: 16,
  route: 200,
  resource: 200,
  action: 64,
  requestId: 40,
  traceId: 40,
  errorCode: 64,
  reason: 200,
} as const;

/** Columns that an entry has in CSV. The members of its actor are columns like others. */
export const ENTRY_COLUMNS: readonly string[] = [
  "sequence",
  "id",
  "producer",
  "kind",
  "callId",
  "occurredAt",
  "receivedAt",
  "userId",
  "role",
  "sessionId",
  "claimedEmail",
  "clientIp",
  "userAgent",
  "method",
  "route",
  "resource",
  "action",
  "requestId",
  "traceId",
  "outcome",
  "errorCode",
  "reason",
  "httpStatus",
  "latencyUs",
  "log",
];

/** @param person Name from the certificate: `operator:ada`. */
export function personActor(person: string): AuditActor {
  return { userId: person, role: person.slice(0, person.indexOf(":")).toUpperCase() };
}
