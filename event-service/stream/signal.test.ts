import { expect, test } from "vitest";
import { streamEntry } from "./event.fixture.ts";
import { type StreamEntry, toEvent } from "./event.ts";
import { SIGNAL_TYPES, toSignal } from "./signal.ts";

const USER = "0199a000-0000-7000-8000-000000000001";
const ADMIN = "0199a000-0000-7000-8000-000000000002";
const SESSION = "0199a000-0000-7000-8000-000000000003";
const at = new Date("2026-11-28T12:00:00.125Z");

const own = { userId: USER, role: "USER", sessionId: SESSION };
const byAdmin = { userId: ADMIN, role: "ADMIN", sessionId: SESSION };

function signalOf(entry: Partial<StreamEntry>) {
  const event = toEvent(
    streamEntry({ resource: USER, occurredAt: at, actor: own, ...entry }),
    "https://a.example",
  );
  return event && toSignal(event);
}

const short = (type: string) => type.split("/event-type/")[1];

test.each<[string, Partial<StreamEntry>, string, object]>([
  [
    "a logout",
    { action: "session.ended", reason: "logout" },
    "session-revoked",
    { initiating_entity: "user", reason_admin: { en: "logout" } },
  ],
  [
    "an end by support",
    { action: "session.ended", reason: "ended_by_admin" },
    "session-revoked",
    { initiating_entity: "admin" },
  ],
  [
    "an end by the limit",
    { action: "session.ended", reason: "session_limit" },
    "session-revoked",
    { initiating_entity: "policy" },
  ],
  [
    "a higher level",
    { action: "session.raised", reason: "1 to 2" },
    "assurance-level-change",
    {
      namespace: "urn:gatehouse:acr",
      current_level: "2",
      previous_level: "1",
      change_direction: "increase",
      initiating_entity: "user",
    },
  ],
  [
    "a new password",
    { action: "user.password_changed" },
    "credential-change",
    { credential_type: "password", change_type: "update", initiating_entity: "user" },
  ],
  [
    "a factor that support took away",
    { action: "user.mfa_reset", actor: byAdmin },
    "credential-change",
    { credential_type: "app", change_type: "revoke", initiating_entity: "admin" },
  ],
  [
    "a passkey",
    { action: "user.passkey_added" },
    "credential-change",
    { credential_type: "passkey", change_type: "create" },
  ],
  [
    "a disabled account",
    { action: "user.status_changed", actor: byAdmin, reason: "disabled: ticket 4711" },
    "account-disabled",
    {},
  ],
  [
    "an enabled account",
    { action: "user.status_changed", actor: byAdmin, reason: "active" },
    "account-enabled",
    {},
  ],
  ["a deleted account", { action: "user.account_deleted" }, "account-purged", {}],
  ["another address", { action: "user.email_changed" }, "identifier-changed", {}],
])("%s is a signal about the user", (_what, entry, name, members) => {
  const signal = signalOf(entry);
  expect(SIGNAL_TYPES).toContain(signal?.type);
  expect(short(signal?.type ?? "")).toBe(name);
  expect(signal?.subject).toBe(USER);
  const body = JSON.parse(signal?.body ?? "");
  const isOfSession = entry.action?.startsWith("session.");
  expect(body).toMatchObject({
    type: signal?.type,
    userId: USER,
    sessionId: isOfSession ? SESSION : "",
    streamId: "",
  });
  expect(body.event).toMatchObject({ event_timestamp: Math.floor(at.getTime() / 1_000), ...members });
});

test.each(["account_deleted", "passkey_removed", "credentials_changed"])(
  "who ended a session is not said where the log does not tell: %s",
  (reason) => {
    const { event } = JSON.parse(signalOf({ action: "session.ended", reason })?.body ?? "");
    expect(event).toEqual({
      event_timestamp: Math.floor(at.getTime() / 1_000),
      reason_admin: { en: reason },
    });
  },
);

test.each(["", "nobody"])("what is about '%s' is no signal, and never one about everybody", (resource) => {
  expect(signalOf({ action: "user.account_deleted", resource })).toBeUndefined();
});

test("the end of all sessions of everybody is about nobody in particular", () => {
  const signal = signalOf({
    action: "session.all_revoked",
    actor: { userId: "", role: "", sessionId: "" },
    resource: "",
  });
  expect(JSON.parse(signal?.body ?? "")).toMatchObject({
    userId: "",
    sessionId: "",
    event: { initiating_entity: "admin" },
  });
});

test.each(["session.all_revoked", "user.account_deleted"])("a route's action %s is no signal", (action) => {
  expect(signalOf({ action })).toBeDefined();
  expect(signalOf({ kind: "outcome", action })).toBeUndefined();
});

test.each([
  "user.login_failed",
  "user.profile_updated",
  "session.refresh_reused",
  "session.revoked",
  "key.rotated",
])("%s is no signal", (action) => {
  expect(signalOf({ action })).toBeUndefined();
});
