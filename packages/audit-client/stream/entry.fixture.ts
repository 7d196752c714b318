import type { AuditEvent, AuditIntent, AuditOutcome } from "./audit-entry.ts";
import { createReadingRecorder, type RecordReading } from "./record-reading.ts";

const CALL = {
  callId: "0190b6a0-0000-7000-8000-00000000000a",
  actor: { userId: "0190b6a0-0000-7000-8000-000000000001", role: "USER" },
  clientIp: "203.0.113.7",
  userAgent: "curl/8.0",
  method: "POST",
  route: "/payments",
  resource: "pay_1",
  action: "payments.create",
  requestId: "0190b6a0-0000-7000-8000-000000000003",
  traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
};

export function sampleIntent(changes: Partial<AuditIntent> = {}): AuditIntent {
  return { kind: "intent", ...CALL, ...changes };
}

export function sampleOutcome(changes: Partial<AuditOutcome> = {}): AuditOutcome {
  return { kind: "outcome", ...CALL, outcome: "success", httpStatus: 201, latencyUs: 1_500, ...changes };
}

export function sampleEvent(changes: Partial<AuditEvent> = {}): AuditEvent {
  return {
    kind: "event",
    id: "0190b6a0-0000-7000-8000-0000000000ee",
    occurredAt: new Date("2026-03-01T09:00:00Z"),
    actor: {
      userId: "0190b6a0-0000-7000-8000-000000000001",
      sessionId: "0190b6a0-0000-7000-8000-000000000002",
    },
    clientIp: "203.0.113.7",
    userAgent: "curl/8.0",
    resource: "0190b6a0-0000-7000-8000-000000000002",
    action: "session.refresh_reused",
    requestId: "0190b6a0-0000-7000-8000-000000000003",
    traceId: "",
    outcome: "failure",
    errorCode: "refresh_token_reused",
    ...changes,
  };
}

export function noteReadings(): { recordReading: RecordReading; noted: AuditEvent[] } {
  const noted: AuditEvent[] = [];
  const recordEvent = async (event: AuditEvent) => void noted.push(event);
  return { recordReading: createReadingRecorder({ recordEvent }, () => new Date()), noted };
}
