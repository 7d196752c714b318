import type { Sql } from "#kit/database/postgres.ts";
import type { Entry, EntryOrigin, LogEntry, ProducedEntry } from "./entry.ts";
import { insertEntries } from "./entry-store.ts";
import { storeEntries } from "./store-entries.ts";

export function sampleEntry(changes: Partial<Entry> = {}): Entry {
  return {
    id: crypto.randomUUID(),
    kind: "outcome",
    callId: "0190b6a0-0000-7000-8000-00000000000a",
    occurredAt: new Date("2026-03-01T10:00:00.123Z"),
    actor: {
      userId: "0190b6a0-0000-7000-8000-000000000001",
      role: "USER",
      sessionId: "0190b6a0-0000-7000-8000-000000000002",
      claimedEmail: "",
    },
    clientIp: "203.0.113.7",
    userAgent: "curl/8.0",
    method: "POST",
    route: "/payments",
    resource: "pay_1",
    action: "payments.create",
    requestId: "0190b6a0-0000-7000-8000-000000000003",
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    outcome: "failure",
    errorCode: "forbidden",
    reason: "",
    httpStatus: 403,
    latencyUs: 12_345,
    ...changes,
  };
}

export function sampleOrigin(
  sequence: number,
  producerId = "0190b6a0-0000-4000-8000-0000000000aa",
): EntryOrigin {
  return { producerId, producerName: "gateway", sequence };
}

export function producedEntry(sequence: number, changes: Partial<Entry> = {}): ProducedEntry {
  return { origin: sampleOrigin(sequence), entry: sampleEntry(changes) };
}

export function loggedEntry(changes: Partial<Entry> = {}): LogEntry {
  const entry = sampleEntry(changes);
  return {
    ...entry,
    actor: { ...entry.actor, claimedEmailHash: "" },
    sequence: 0,
    receivedAt: new Date("2026-03-01T10:00:00.456Z"),
    producer: "gateway",
  };
}

export function store(sql: Sql, entries: readonly ProducedEntry[]): Promise<number> {
  return storeEntries({ insertEntries: (each) => insertEntries(sql, each) }, entries);
}

export function asSent({ sequence: _, receivedAt: __, producer: ___, ...entry }: LogEntry): Entry {
  const { claimedEmailHash: ____, ...actor } = entry.actor;
  return { ...entry, actor };
}
