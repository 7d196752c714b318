/** What event-service needs of an entry of the audit log. */
export interface StreamEntry {
  id: string;
  kind: "intent" | "outcome" | "event" | "unspecified";
  log: number;
  sequence: number;
  occurredAt: Date;
  receivedAt: Date;
  producer: string;
  actor: { userId: string; role: string; sessionId: string };
  action: string;
  resource: string;
  outcome: string;
  errorCode: string;
  reason: string;
  method: string;
  route: string;
  httpStatus: number;
  latencyUs: number;
  callId: string;
  requestId: string;
  traceId: string;
}

/** One event of the stream, ready to be sent. */
export interface StreamEvent {
  id: string;
  log: number;
  sequence: number;
  type: string;
  /** Events of one subject are sent in the order of the log. Empty: about nobody. */
  subject: string;
  /** A CloudEvent in JSON (CloudEvents 1.0.2, JSON format). */
  body: string;
  /** When the log took it. */
  receivedAt: Date;
}

const TEST_TYPE = "gatehouse.webhook.test.v1";

/**
 * No address, network or device of a person: who needs them reads the entry of this id in the audit log.
 *
 * @param source where the entry can be read, an origin. @returns undefined for an intent: its outcome follows.
 */
export function toEvent(logged: StreamEntry, source: string): StreamEvent | undefined {
  if (logged.kind !== "outcome" && logged.kind !== "event") return undefined;
  const { resource, reason } = logged;
  const entry = { ...logged, resource: withoutAddresses(resource), reason: withoutAddresses(reason) };
  const { id, log, sequence, occurredAt } = entry;
  const type = `gatehouse.${entry.action}.v1`;
  const subject = subjectOf(entry);
  const attributes = {
    ...{ specversion: "1.0", id, source, type, ...(subject !== "" && { subject }) },
    ...{ time: occurredAt.toISOString(), datacontenttype: "application/json" },
    // An integer of CloudEvents has 32 bits.
    ...{ log, sequence: String(sequence), sequencetype: "Integer" },
  };
  const body = JSON.stringify({ ...attributes, data: dataOf(entry) });
  return { id, log, sequence, type, subject, body, receivedAt: entry.receivedAt };
}

/** The resource of a forwarded call is its path, where a service may have an e-mail address. */
function withoutAddresses(text: string): string {
  return text.replace(/[^\s/"]+/g, (part) => (/@|%40/.test(part) ? "[address]" : part));
}

/** Of an event whom or what it is about, of a call who made it. */
function subjectOf({ kind, resource, actor }: StreamEntry): string {
  return kind === "event" ? resource || actor.userId : actor.userId || resource;
}

function dataOf(entry: StreamEntry) {
  const { kind, actor, resource, outcome, errorCode, reason, producer, receivedAt } = entry;
  const { callId, method, route, httpStatus, latencyUs, requestId, traceId } = entry;
  const { userId, role, sessionId } = actor;
  const texts = { resource, errorCode, reason, requestId, traceId };
  return {
    kind: kind === "event" ? "event" : "call",
    actor: given({ userId, role, sessionId }),
    outcome: outcome || "unknown",
    ...given(texts),
    producer,
    receivedAt: receivedAt.toISOString(),
    ...(kind === "outcome" && { callId, method, route, httpStatus, latencyUs }),
  };
}

/** Without empty members. */
function given(members: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== ""));
}

export function testEvent({ id, source, at }: { id: string; source: string; at: Date }): StreamEvent {
  const time = at.toISOString();
  const attributes = {
    specversion: "1.0",
    id,
    source,
    type: TEST_TYPE,
    time,
    datacontenttype: "application/json",
  };
  const body = JSON.stringify({ ...attributes, data: { kind: "test" } });
  return { id, log: 0, sequence: 0, type: TEST_TYPE, subject: "", body, receivedAt: at };
}

/** Each is a type, or the beginning of types with `*` at its end. */
export function typeFilter(types: readonly string[]): (type: string) => boolean {
  const exact = new Set(types);
  const beginnings = types.filter((type) => type.endsWith("*")).map((type) => type.slice(0, -1));
  return (type) => exact.has(type) || beginnings.some((beginning) => type.startsWith(beginning));
}
