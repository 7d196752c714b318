/** What an entry says: who did what, when, and what came of it. Empty text or 0 where it says nothing. */
export interface Entry {
  /** UUID that stands for this entry, whoever sends it. */
  id: string;
  kind: "intent" | "outcome" | "event" | "unspecified";
  /** Shared by the intent and the outcome of one call; empty for an event. */
  callId: string;
  /** By the producer's clock. */
  occurredAt: Date;
  actor: EntryActor;
  clientIp: string;
  userAgent: string;
  method: string;
  route: string;
  resource: string;
  action: string;
  requestId: string;
  traceId: string;
  outcome: "" | "success" | "failure" | "unknown";
  errorCode: string;
  /** Why, of an event. */
  reason: string;
  httpStatus: number;
  /** Microseconds. */
  latencyUs: number;
}

export interface EntryActor {
  userId: string;
  role: string;
  sessionId: string;
  /** Not verified. */
  claimedEmail: string;
}

/** An entry as the log holds it. */
export interface LogEntry extends Entry {
  /** Its place in the log, from 1 without gaps; 0 while it has none yet. */
  sequence: number;
  /** By the log's clock. */
  receivedAt: Date;
  /** The service that sent it, from its certificate. */
  producer: string;
  /** The claimed address is empty once it was erased. */
  actor: EntryActor & {
    /** SHA-256 of salt and claimed address, in hexadecimal; empty if none was claimed. */
    claimedEmailHash: string;
  };
}

/** Where an entry comes from: what makes storing it exactly-once. */
export interface EntryOrigin {
  /** UUID of the producing process. */
  producerId: string;
  /** The producing service, from its certificate. */
  producerName: string;
  /** Counts up from 1 for each producer. */
  sequence: number;
  /** `2026-11-21`, UTC, the same however often the entry is sent. Absent: the day on which it occurred. */
  day?: string;
}

/** An entry ready to be stored. */
export interface ProducedEntry {
  origin: EntryOrigin;
  entry: Entry;
}
