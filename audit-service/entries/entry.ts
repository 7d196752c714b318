import type { AuditActor } from "#audit-client/stream/audit-entry.ts";

/** Unknown fields are empty text or 0. */
export interface Entry {
  id: string;
  kind: "intent" | "outcome" | "event" | "unspecified";
  /** Shared by intent and outcome. */
  callId: string;
  /** Time of the producer. */
  occurredAt: Date;
  actor: Required<AuditActor>;
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
  reason: string;
  httpStatus: number;
  latencyUs: number;
}

export interface LogEntry extends Entry {
  /** Counts from 1. 0 until numbered. */
  sequence: number;
  /** Time of the log. */
  receivedAt: Date;
  /** Service name in the certificate. */
  producer: string;
  actor: Required<AuditActor> & {
    /** SHA-256 of salt and address in hexadecimal, or empty. */
    claimedEmailHash: string;
  };
}

/** An entry as readers get it. */
export interface PlacedEntry extends LogEntry {
  /** The number of the log in which its sequence counts. */
  log: number;
}

export interface EntryOrigin {
  /** UUID of the process. */
  producerId: string;
  producerName: string;
  /** Counts from 1 per producer. */
  sequence: number;
  /** `2026-11-21` in UTC, the same in repetitions. Default: the day of `occurredAt`. */
  day?: string;
}

export interface ProducedEntry {
  origin: EntryOrigin;
  entry: Entry;
}
