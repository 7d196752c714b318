import { expect, test } from "vitest";
import { RecordRequest } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { sampleEvent, sampleIntent, sampleOutcome } from "./entry.fixture.ts";
import { toProto } from "./to-proto.ts";

const ID = "0190b6a0-0000-7000-8000-0000000000ff";
const AT = new Date("2026-03-01T10:00:00.123Z");
const MADE = { id: ID, occurredAt: AT };

test("an outcome contains the result of the call", () => {
  expect(
    toProto(sampleOutcome({ outcome: "failure", errorCode: "forbidden", httpStatus: 403 }), MADE),
  ).toEqual({
    sequence: 0,
    receivedAt: undefined,
    producer: "",
    log: 0,
    id: ID,
    kind: EntryKind.OUTCOME,
    callId: "0190b6a0-0000-7000-8000-00000000000a",
    occurredAt: AT,
    actor: {
      userId: "0190b6a0-0000-7000-8000-000000000001",
      role: "USER",
      sessionId: "",
      claimedEmail: "",
      claimedEmailHash: "",
    },
    clientIp: "203.0.113.7",
    userAgent: "curl/8.0",
    method: "POST",
    route: "/payments",
    resource: "pay_1",
    action: "payments.create",
    requestId: "0190b6a0-0000-7000-8000-000000000003",
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    outcome: Outcome.FAILURE,
    errorCode: "forbidden",
    reason: "",
    httpStatus: 403,
    latencyUs: 1_500,
  });
});

test("an intent contains no outcome", () => {
  expect(toProto(sampleIntent(), MADE)).toMatchObject({
    kind: EntryKind.INTENT,
    outcome: Outcome.UNSPECIFIED,
    errorCode: "",
    httpStatus: 0,
    latencyUs: 0,
  });
});

test("an event keeps its id and time, and contains no call", () => {
  expect(toProto(sampleEvent(), MADE)).toMatchObject({
    id: "0190b6a0-0000-7000-8000-0000000000ee",
    kind: EntryKind.EVENT,
    occurredAt: new Date("2026-03-01T09:00:00Z"),
    callId: "",
    method: "",
    route: "",
    outcome: Outcome.FAILURE,
    errorCode: "refresh_token_reused",
    httpStatus: 0,
  });
});

test("an event with an invalid time does not block the queue", () => {
  const entry = toProto(sampleEvent({ occurredAt: new Date(Number.NaN) }), MADE);
  expect(() => RecordRequest.encode({ producerId: ID, entries: [{ sequence: 1, entry }] })).not.toThrow();
});

test.each([
  { latencyUs: 1.5, httpStatus: 200.5 },
  { latencyUs: -3, httpStatus: -1 },
  { latencyUs: Number.NaN, httpStatus: Number.NaN },
  { latencyUs: Number.POSITIVE_INFINITY, httpStatus: 1e12 },
  { latencyUs: Number.MAX_VALUE, httpStatus: 5e9 },
])("numbers that cannot be encoded do not block the queue: %j", (numbers) => {
  const entry = toProto(sampleOutcome(numbers), MADE);
  const encode = () => RecordRequest.encode({ producerId: ID, entries: [{ sequence: 1, entry }] }).finish();
  expect(RecordRequest.decode(encode()).entries[0]?.entry).toEqual(entry);
});

test("the longest id of an introspection client is not cut", () => {
  const userId = `client:${"c".repeat(64)}`;
  expect(toProto(sampleOutcome({ actor: { userId } }), MADE).actor?.userId).toBe(userId);
});

test("200 entries of maximum length, with three bytes per character, fit into 1 MiB", () => {
  const long = "€".repeat(100_000);
  const entry = toProto(
    sampleOutcome({
      callId: long,
      actor: { userId: long, role: long, sessionId: long, claimedEmail: long },
      clientIp: long,
      userAgent: long,
      method: long,
      route: long,
      resource: long,
      action: long,
      requestId: long,
      traceId: long,
      errorCode: long,
      latencyUs: Number.MAX_SAFE_INTEGER,
    }),
    MADE,
  );
  const event = toProto(
    sampleEvent({
      actor: { userId: long, role: long, sessionId: long, claimedEmail: long },
      clientIp: long,
      userAgent: long,
      resource: long,
      action: long,
      requestId: long,
      traceId: long,
      errorCode: long,
      reason: long,
    }),
    MADE,
  );
  for (const longest of [entry, event]) {
    const entries = Array.from({ length: 200 }, () => ({
      sequence: Number.MAX_SAFE_INTEGER,
      entry: longest,
    }));
    expect(RecordRequest.encode({ producerId: ID, entries }).finish().length).toBeLessThan(1024 * 1024);
  }
});
