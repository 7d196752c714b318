import { expect, test } from "vitest";
import { streamEntry } from "./event.fixture.ts";
import { testEvent, toEvent, typeFilter } from "./event.ts";

const SOURCE = "https://auth.example.com";
const at = new Date("2026-11-28T12:00:00.125Z");
const USER = "0199a000-0000-7000-8000-000000000001";
const ADMIN = "0199a000-0000-7000-8000-000000000002";

const bodyOf = (entry: Parameters<typeof streamEntry>[0]) =>
  JSON.parse(toEvent(streamEntry(entry), SOURCE)?.body ?? "null");

test("an event of the log is a CloudEvent about whom it is about", () => {
  const entry = {
    id: "0199a000-0000-7000-8000-00000000000a",
    log: 1,
    sequence: 4711,
    occurredAt: at,
    receivedAt: at,
  };
  const actor = { userId: ADMIN, role: "ADMIN", sessionId: "" };
  expect(
    bodyOf({
      ...entry,
      action: "user.status_changed",
      actor,
      resource: USER,
      reason: "disabled",
      requestId: "r",
    }),
  ).toEqual({
    specversion: "1.0",
    id: "0199a000-0000-7000-8000-00000000000a",
    source: SOURCE,
    type: "gatehouse.user.status_changed.v1",
    subject: USER,
    time: "2026-11-28T12:00:00.125Z",
    datacontenttype: "application/json",
    log: 1,
    sequence: "4711",
    sequencetype: "Integer",
    data: {
      kind: "event",
      actor: { userId: ADMIN, role: "ADMIN" },
      outcome: "success",
      resource: USER,
      reason: "disabled",
      requestId: "r",
      producer: "identity-service",
      receivedAt: "2026-11-28T12:00:00.125Z",
    },
  });
});

test("the outcome of a call is an event about who made it", () => {
  const actor = { userId: USER, role: "USER", sessionId: ADMIN };
  const call = {
    kind: "outcome",
    callId: ADMIN,
    method: "POST",
    route: "/payments",
    httpStatus: 201,
    latencyUs: 4_125,
  } as const;
  const body = bodyOf({ ...call, action: "payments.create", actor, resource: "", producer: "gateway" });
  expect(body).toMatchObject({ type: "gatehouse.payments.create.v1", subject: USER });
  expect(body.data).toMatchObject({
    kind: "call",
    callId: ADMIN,
    method: "POST",
    route: "/payments",
    httpStatus: 201,
    latencyUs: 4_125,
  });
});

test.each([
  [{ resource: "customers/jane@example.com/notes/7" }, "customers/[address]/notes/7"],
  [{ resource: "customers/jane%40example.com" }, "customers/[address]"],
  [{ resource: "7", reason: 'resource="customers/jane@example.com"' }, "7"],
])(
  "an address in the path of a forwarded call, or in a search for one, is not told: %j",
  (texts, subject) => {
    const body = bodyOf({ kind: "outcome", action: "crm.update", ...texts });
    expect(JSON.stringify(body)).not.toContain("jane");
    expect(body).toMatchObject({ subject, data: { resource: subject } });
  },
);

test("an anonymous call that is about nothing has no subject", () => {
  expect(bodyOf({ kind: "outcome", action: "auth.login", resource: "" })).not.toHaveProperty("subject");
});

test("an intent is no event: its outcome follows", () => {
  expect(toEvent(streamEntry({ kind: "intent" }), SOURCE)).toBeUndefined();
  expect(toEvent(streamEntry({ kind: "unspecified" }), SOURCE)).toBeUndefined();
});

test("a test event says that it is one", () => {
  expect(JSON.parse(testEvent({ id: USER, source: SOURCE, at }).body)).toMatchObject({
    id: USER,
    type: "gatehouse.webhook.test.v1",
    data: { kind: "test" },
  });
});

test.each([
  [["gatehouse.user.password_changed.v1"], true],
  [["gatehouse.user.*"], true],
  [["gatehouse.*"], true],
  [["gatehouse.user.password"], false],
  [["gatehouse.session.*", "gatehouse.user.password_reset.v1"], false],
  [["gatehouse.session.*", "gatehouse.user.password_c*"], true],
])("types %j match a changed password: %s", (types, isMatch) => {
  expect(typeFilter(types)("gatehouse.user.password_changed.v1")).toBe(isMatch);
});
