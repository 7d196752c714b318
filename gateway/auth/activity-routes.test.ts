import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { SearchEntriesRequest } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { type Entry, EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { SESSION_ID, send, testGateway, USER_ID, verifierOfUsers } from "../testing/test-gateway.ts";

const OTHER_ID = "0199a000-0000-7000-8000-00000000000a";
const NOBODY = { userId: "", role: "", sessionId: "", claimedEmail: "", claimedEmailHash: "" };
const SELF = { ...NOBODY, userId: USER_ID, role: "USER", sessionId: SESSION_ID };
const STAFF = { ...NOBODY, userId: OTHER_ID, role: "SUPPORT", sessionId: SESSION_ID };
const EVENT: Entry = {
  id: USER_ID,
  kind: EntryKind.EVENT,
  callId: "",
  occurredAt: new Date(0),
  actor: SELF,
  clientIp: "192.0.2.7",
  userAgent: "test/1",
  method: "",
  route: "",
  resource: USER_ID,
  action: "user.password_changed",
  requestId: "secret-request",
  traceId: "secret-trace",
  outcome: Outcome.SUCCESS,
  errorCode: "",
  httpStatus: 0,
  latencyUs: 0,
  reason: "secret reason",
  sequence: 1,
  receivedAt: undefined,
  producer: "identity-service",
  log: 0,
};
const LOGIN = { ...EVENT, kind: EntryKind.OUTCOME, action: "auth.login" };
const SHOWN = {
  id: USER_ID,
  action: "password_changed",
  occurredAt: "1970-01-01T00:00:00.000Z",
  by: "you",
  ip: "192.0.2.7",
  userAgent: "test/1",
};

/** Its cursors are places in the log, as those of audit-service. */
function gatewayOf(log: readonly Entry[]) {
  const asked: SearchEntriesRequest[] = [];
  const searchEntries = async (search: SearchEntriesRequest) => {
    asked.push(search);
    const from = Number(search.cursor);
    const entries = log
      .map((entry, place) => ({ entry, place }))
      .filter(({ entry, place }) => {
        const isMeant = entry.resource === search.resource && !search.withoutActions.includes(entry.action);
        return place >= from && isMeant;
      });
    const page = entries.slice(0, search.limit);
    const nextCursor = entries.length > page.length ? String((page.at(-1)?.place ?? 0) + 1) : "";
    return { entries: page.map(({ entry }) => entry), nextCursor };
  };
  return { ...testGateway({ auditQuery: { searchEntries }, verifier: verifierOfUsers() }), asked };
}

const read = async (app: ReturnType<typeof gatewayOf>["app"], query = "", token = USER_ID) =>
  (await send(app, { url: `/auth/me/activity${query}`, token })).json();

test("a person sees what happened to the own account, and nothing by which another person could be known", async () => {
  const { app, entries, readings } = gatewayOf([
    EVENT,
    LOGIN,
    { ...LOGIN, action: "auth.logout" },
    { ...LOGIN, action: "auth.session_end" },
    // The log names the owner of the token, not who presented it.
    { ...EVENT, action: "session.refresh_reused", outcome: Outcome.FAILURE },
    { ...EVENT, action: "user.login_failed", actor: NOBODY, outcome: Outcome.FAILURE },
    { ...EVENT, action: "user.mfa_reset", actor: STAFF },
    { ...EVENT, action: "user.status_changed", actor: { ...NOBODY, userId: "operator:grace" } },
  ]);
  const body = await read(app);
  const support = { by: "support", ip: "", userAgent: "" };
  expect(body.data).toEqual({
    activity: [
      SHOWN,
      { ...SHOWN, action: "login" },
      { ...SHOWN, action: "logout" },
      { ...SHOWN, action: "session_ended" },
      { ...SHOWN, action: "refresh_reused", by: "unknown" },
      { ...SHOWN, action: "login_failed", by: "unknown" },
      { ...SHOWN, action: "mfa_reset", ...support },
      { ...SHOWN, action: "status_changed", ...support },
    ],
    nextCursor: null,
  });
  expect(JSON.stringify(body.data)).not.toMatch(new RegExp(`secret|${OTHER_ID}|grace|SUPPORT|${SESSION_ID}`));
  // Reading one's own is not recorded.
  expect([entries, readings]).toEqual([[], []]);
});

test.each<{ what: string; entry: Entry }>([
  { what: "another account", entry: { ...EVENT, resource: OTHER_ID } },
  { what: "what one did to another account", entry: { ...EVENT, resource: OTHER_ID, actor: SELF } },
  {
    what: "a stranger's call whose path names the account",
    entry: { ...LOGIN, action: "auth.oauth_login", actor: NOBODY, outcome: Outcome.FAILURE },
  },
  {
    what: "another person's login at such a path",
    entry: { ...LOGIN, action: "auth.oauth_login", actor: STAFF },
  },
  { what: "a login that was refused after the first factor", entry: { ...LOGIN, outcome: Outcome.FAILURE } },
  {
    what: "a refused try to end a session",
    entry: { ...LOGIN, action: "auth.session_end", outcome: Outcome.FAILURE },
  },
  { what: "the beginning of a call", entry: { ...LOGIN, kind: EntryKind.INTENT } },
  { what: "support's look at the account", entry: { ...EVENT, action: "user.read", actor: STAFF } },
  { what: "support's call", entry: { ...LOGIN, action: "admin.users.update", actor: STAFF } },
  { what: "a call to a service behind the gateway", entry: { ...LOGIN, action: "payments.create" } },
  { what: "a call that has an event's name", entry: { ...LOGIN, action: "user.password_changed" } },
  { what: "an event without words", entry: { ...EVENT, action: "user.trusted_device_used" } },
])("not shown: $what", async ({ entry }) => {
  // Even if audit-service found it.
  const { app } = testGateway({
    auditQuery: { searchEntries: async () => ({ entries: [entry], nextCursor: "" }) },
  });
  expect((await read(app, "", "user-token")).data).toEqual({ activity: [], nextCursor: null });
});

test("whatever is asked, and with whichever cursor, it is the caller's own", async () => {
  const { app, asked } = gatewayOf([
    { ...EVENT, resource: OTHER_ID },
    EVENT,
    { ...EVENT, resource: OTHER_ID },
    EVENT,
  ]);
  for (const name of ["user", "userId", "actor", "resource", "id", "action"]) {
    expect((await read(app, `?${name}=${OTHER_ID}`)).error.details).toHaveLength(1);
  }
  expect(asked).toEqual([]);
  const own = await read(app, "?limit=1");
  const ofAnother = await read(app, "?limit=1", OTHER_ID);
  expect([own, ofAnother].map(({ data }) => data.activity.length)).toEqual([1, 1]);
  const next = await read(app, `?cursor=${ofAnother.data.nextCursor}`);
  expect(next.data.activity).toHaveLength(2);
  expect(asked.map(({ resource }) => resource)).toEqual([USER_ID, OTHER_ID, USER_ID]);
});

test("what others put in the way costs at most five searches, and nothing is left out", async () => {
  const strangers = { ...LOGIN, action: "auth.oauth_login", actor: NOBODY };
  const { app, asked } = gatewayOf([EVENT, ...Array.from({ length: 12 }, () => strangers), EVENT, EVENT]);
  const first = await read(app, "?limit=2");
  expect(first.data.activity).toHaveLength(1);
  expect(asked.map(({ limit }) => limit)).toEqual([2, 1, 1, 1, 1]);
  const found = [];
  for (let cursor = first.data.nextCursor; cursor !== null; ) {
    const { data } = await read(app, `?limit=2&cursor=${cursor}`);
    found.push(...data.activity);
    cursor = data.nextCursor;
  }
  expect(found).toEqual([SHOWN, SHOWN]);
});

test.each(["limit=0", "limit=51", "limit=x", "cursor=", `cursor=${"c".repeat(513)}`])(
  "?%s is refused",
  async (query) => {
    const { app, asked } = gatewayOf([]);
    expect((await read(app, `?${query}`)).error.code).toBe("validation_failed");
    expect(asked).toEqual([]);
  },
);

test("it needs a login, and without audit-service only it is away", async () => {
  const away = async () => Promise.reject(new DomainError("service_unavailable"));
  const { app } = testGateway({
    auditQuery: { searchEntries: away },
    sessions: { listSessions: async () => ({ sessions: [] }) },
  });
  const statusOf = async (url: string, token?: string) =>
    (await send(app, { url, ...(token !== undefined && { token }) })).statusCode;
  expect(await statusOf("/auth/me/activity")).toBe(401);
  expect(await statusOf("/auth/me/activity", "revoked-token")).toBe(401);
  expect(await statusOf("/auth/me/activity", "user-token")).toBe(503);
  expect(await statusOf("/auth/sessions", "user-token")).toBe(200);
});
