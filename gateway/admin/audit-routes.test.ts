import { expect, test, vi } from "vitest";
import type { AuditEvent } from "#audit-client/stream/audit-entry.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SearchEntriesRequest } from "#proto/gatehouse/audit/v1/audit_query_service.ts";
import { EntryKind, Outcome } from "#proto/gatehouse/audit/v1/entry.ts";
import { UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Backends } from "../backends/backends.ts";
import { createNoteReading } from "../edge/audit.ts";
import { ada, SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

function gateway() {
  const asked: SearchEntriesRequest[] = [];
  const searchEntries = async (filter: SearchEntriesRequest) => {
    asked.push(filter);
    return { entries: [], nextCursor: "" };
  };
  return { asked, app: testGateway({ auditQuery: { searchEntries } }).app };
}

const NO_FILTER: SearchEntriesRequest = {
  actorUserId: "",
  action: "",
  resource: "",
  outcome: Outcome.UNSPECIFIED,
  withoutActions: [],
  requestId: "",
  from: undefined,
  to: undefined,
  cursor: "",
  limit: 50,
};

test.each([
  { token: "admin-token", status: 200 },
  { token: "auditor-token", status: 200 },
  { token: "user-token", status: 403 },
  { token: "revoked-token", status: 401 },
])("the audit log is read by administrators and auditors: $token, $status", async ({ token, status }) => {
  const { app } = gateway();
  const response = await send(app, { url: "/admin/audit", token });
  expect(response.statusCode).toBe(status);
  expect(response.headers["cache-control"]).toBe("no-store");
});

test("who may read the entries of one user must name the user, and sees nothing of users who may administer more", async () => {
  const entry = (role: string) => ({
    ...ENTRY,
    actor: { userId: USER_ID, role, sessionId: "", claimedEmail: "", claimedEmailHash: "" },
  });
  const page = async () => ({
    entries: ["USER", "ADMIN", "SUPPORT", "AUDITOR", "GONE", ""].map(entry),
    nextCursor: "next",
  });
  const { app, readings } = testGateway({ auditQuery: { searchEntries: page } });
  for (const query of ["", `?resource=${USER_ID}`, "?actor=operator:ada", "?actor=client:ledger"]) {
    const refused = await send(app, { url: `/admin/audit${query}`, token: "support-token" });
    expect([query, refused.statusCode, refused.json().error.details[0].field]).toEqual([query, 400, "actor"]);
  }
  expect(readings).toEqual([]);
  const rolesFor = async (token: string) => {
    const { data } = (await send(app, { url: `/admin/audit?actor=${USER_ID}`, token })).json();
    return data.entries.map(({ actor }: { actor: { role: string } }) => actor.role);
  };
  expect(await rolesFor("support-token")).toEqual(["USER", "SUPPORT", undefined]);
  expect(await rolesFor("auditor-token")).toEqual(["USER", "ADMIN", "SUPPORT", "AUDITOR", "GONE", undefined]);
  expect((await send(app, { url: `/admin/audit/${USER_ID}`, token: "support-token" })).statusCode).toBe(403);
});

test("people of a page are named by one call, within the reading of the log, to those who may read users", async () => {
  const OTHER = "0199a000-0000-7000-8000-00000000000a";
  const entry = (userId: string, resource: string) => ({
    ...ENTRY,
    actor: { ...ENTRY.actor, userId },
    resource,
  });
  const entries = [entry(USER_ID, OTHER), entry(OTHER, USER_ID), entry("client:ledger", "/payments/7")];
  const listUsers = vi.fn<Backends["users"]["listUsers"]>(async () => ({
    users: [
      {
        user: ada,
        status: UserStatus.ACTIVE,
        firstLoginAt: undefined,
        lastLoginAt: undefined,
        mustChangePassword: false,
      },
    ],
    nextCursor: "",
    total: 1,
    totalIs: 0,
  }));
  const { app, readings } = testGateway({
    auditQuery: {
      searchEntries: async () => ({ entries, nextCursor: "" }),
      followEntries: async () => ({
        entries,
        nextAfterSequence: 42,
        size: 42,
        next: [],
        hasMore: false,
        away: [],
      }),
    },
    users: { listUsers },
  });
  const search = async (query: string, token = "admin-token") =>
    (await send(app, { url: `/admin/audit?${query}`, token })).json();
  // Whoever has gone stays an id.
  expect((await search("people=true")).data.people).toEqual([{ id: USER_ID, email: ada.email }]);
  expect(listUsers.mock.calls.map(([{ ids }]) => ids)).toEqual([[USER_ID, OTHER]]);
  expect(readings).toMatchObject([{ action: "audit.searched", reason: "people=true limit=50" }]);
  expect((await search("limit=50")).data).not.toHaveProperty("people");
  expect((await search("people=true", "auditor-token")).error.code).toBe("forbidden");
  expect(listUsers).toHaveBeenCalledOnce();
  expect(readings).toHaveLength(2);
  listUsers.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const { data } = await search("people=true");
  expect([data.entries.length, data.people]).toEqual([3, undefined]);
  const follow = async (token: string) =>
    (await send(app, { url: "/admin/audit/tail?after=1&people=true", token })).json();
  expect((await follow("admin-token")).data.people).toEqual([{ id: USER_ID, email: ada.email }]);
  const noted = readings.length;
  expect((await follow("auditor-token")).error.code).toBe("forbidden");
  expect(readings).toHaveLength(noted);
});

test("without filters it is the newest fifty", async () => {
  const { app, asked } = gateway();
  const response = await send(app, { url: "/admin/audit", token: "auditor-token" });
  expect(response.json().data).toEqual({ entries: [], nextCursor: null });
  expect(asked).toEqual([NO_FILTER]);
});

test("every filter is passed on", async () => {
  const { app, asked } = gateway();
  const query = new URLSearchParams({
    actor: USER_ID,
    action: "auth.login",
    resource: "r",
    outcome: "unknown",
    hide: "routine",
    requestId: USER_ID,
    from: "2026-01-01T00:00:00Z",
    to: "2026-01-02T00:00:00+02:00",
    cursor: "c",
    limit: "100",
  });
  await send(app, { url: `/admin/audit?${query}`, token: "admin-token" });
  expect(asked).toEqual([
    {
      actorUserId: USER_ID,
      action: "auth.login",
      resource: "r",
      outcome: Outcome.UNKNOWN,
      withoutActions: expect.arrayContaining(["audit.searched", "user.listed", "auth.refresh"]),
      requestId: USER_ID,
      from: new Date("2026-01-01T00:00:00Z"),
      to: new Date("2026-01-01T22:00:00Z"),
      cursor: "c",
      limit: 100,
    },
  ]);
});

test.each(["client:ledger", "operator:ada", "auditor:ada.l"])(
  "the actor %s is searched for",
  async (actor) => {
    const { app, asked } = gateway();
    await send(app, { url: `/admin/audit?actor=${actor}`, token: "auditor-token" });
    expect(asked).toEqual([{ ...NO_FILTER, actorUserId: actor }]);
  },
);

test.each([
  "action=anna@example.com",
  "resource=anna@example.com",
  "resource=%40",
  "action=user.created%20anna%40example.com",
])("an address is no filter of the log, which notes what was searched for: %s", async (query) => {
  const noted: AuditEvent[] = [];
  const searchEntries = vi.fn(async () => ({ entries: [], nextCursor: "" }));
  const noteReading = createNoteReading(
    { recordEvent: async (event) => void noted.push(event) },
    () => new Date(1_000),
  );
  const { app } = testGateway({ auditQuery: { ...PROOFS, searchEntries }, noteReading });
  const answer = await send(app, { url: `/admin/audit?${query}`, token: "auditor-token" });
  expect(answer.statusCode).toBe(400);
  expect(answer.json().error.details).toMatchObject([
    { field: query.split("=")[0], message: expect.stringContaining("must not have an @") },
  ]);
  expect(searchEntries).not.toHaveBeenCalled();
  expect(noted).toEqual([]);
});

test("searches and reads are in the audit log before the answer, one entry a call", async () => {
  const durable = Promise.withResolvers<void>();
  const readings: AuditEvent[] = [];
  const recordEvent = async (event: AuditEvent) => {
    readings.push(event);
    await durable.promise;
  };
  const searchEntries = vi.fn(async () => ({ entries: [], nextCursor: "" }));
  const { app } = testGateway({
    auditQuery: { ...PROOFS, searchEntries },
    noteReading: createNoteReading({ recordEvent }, () => new Date(1_000)),
  });
  const query = `actor=client:ledger&resource=pay_1&requestId=${SESSION_ID}&cursor=c&limit=7`;
  const answer = send(app, { url: `/admin/audit?${query}`, token: "auditor-token" });
  await expect.poll(() => readings).toHaveLength(1);
  expect(searchEntries).not.toHaveBeenCalled();
  durable.resolve();
  expect((await answer).statusCode).toBe(200);
  await send(app, { url: `/v1/admin/audit/${USER_ID}`, token: "admin-token" });
  expect(readings).toMatchObject([
    {
      kind: "event",
      action: "audit.searched",
      actor: { userId: USER_ID, role: "AUDITOR", sessionId: SESSION_ID },
      occurredAt: new Date(1_000),
      clientIp: "127.0.0.1",
      resource: "",
      reason: `actor=client:ledger resource=pay_1 limit=7 request=${SESSION_ID}`,
    },
    { action: "audit.entry_read", actor: { role: "ADMIN" }, resource: USER_ID },
  ]);
  expect(readings[1]).not.toHaveProperty("reason");
});

test("a reading that cannot be noted is not answered", async () => {
  const { app } = testGateway({
    auditQuery: PROOFS,
    noteReading: async () => {
      throw new DomainError("audit_unavailable");
    },
  });
  const response = await send(app, { url: `/admin/audit/${USER_ID}`, token: "admin-token" });
  expect([response.statusCode, response.json().error.code]).toEqual([503, "audit_unavailable"]);
});

test("SUPPORT sees why logins of a user failed, and not those of whoever may administer more", async () => {
  const failed = {
    ...ENTRY,
    kind: EntryKind.EVENT,
    action: "user.login_failed",
    resource: USER_ID,
    reason: "wrong_password",
  };
  const entry = { ...failed, actor: { ...ENTRY.actor, userId: "" }, outcome: Outcome.FAILURE };
  const searchEntries = vi.fn(async () => ({ entries: [entry], nextCursor: "" }));
  let role = "USER";
  const getManagedUser = vi.fn(async () => ({
    user: {
      user: { ...ada, role },
      status: UserStatus.ACTIVE,
      firstLoginAt: undefined,
      lastLoginAt: undefined,
      mustChangePassword: false,
    },
    details: undefined,
  }));
  const { app, readings } = testGateway({ auditQuery: { searchEntries }, users: { getManagedUser } });
  const search = (query: string) => send(app, { url: `/admin/audit?${query}`, token: "support-token" });
  const failures = `action=user.login_failed&resource=${USER_ID}`;
  const { data } = (await search(failures)).json();
  expect(data.entries).toMatchObject([{ action: "user.login_failed", reason: "wrong_password" }]);
  expect(readings).toMatchObject([{ action: "audit.searched", actor: { role: "SUPPORT" } }]);
  for (const other of ["ADMIN", "AUDITOR"]) {
    role = other;
    expect((await search(failures)).statusCode).toBe(403);
  }
  getManagedUser.mockRejectedValueOnce(new DomainError("forbidden"));
  expect((await search(failures)).statusCode).toBe(403);
  for (const query of [
    "action=user.login_failed",
    `resource=${USER_ID}`,
    "action=user.login_failed&resource=x",
  ])
    expect((await search(query)).statusCode).toBe(400);
  expect(searchEntries).toHaveBeenCalledTimes(1);
});

test.each([
  "limit=0",
  "limit=101",
  "limit=-1",
  "limit=1e1",
  "limit=",
  "limit=1&limit=2",
  "actor=me",
  "actor=client:",
  "actor=service:ledger",
  "actor=client:a%00b",
  "outcome=all",
  "from=yesterday",
  "from=2026-02-30T00:00:00Z",
  "sort=asc",
  "__proto__=1",
])("?%s is refused", async (query) => {
  const { app } = gateway();
  const response = await send(app, { url: `/admin/audit?${query}`, token: "admin-token" });
  expect(response.statusCode).toBe(400);
  expect(response.json().error.details).toHaveLength(1);
});

const ENTRY = {
  id: USER_ID,
  kind: EntryKind.OUTCOME,
  callId: "call",
  occurredAt: new Date(0),
  actor: { userId: "u", role: "", sessionId: "", claimedEmail: "", claimedEmailHash: "hash" },
  clientIp: "",
  userAgent: "",
  method: "POST",
  route: "/r",
  resource: "",
  action: "a.b",
  requestId: "r",
  traceId: "t",
  outcome: Outcome.SUCCESS,
  errorCode: "",
  httpStatus: 200,
  latencyUs: 5,
  reason: "",
  sequence: 0,
  receivedAt: undefined,
  producer: "gateway",
  log: 0,
};
const ENTRY_JSON = {
  id: USER_ID,
  kind: "outcome",
  callId: "call",
  occurredAt: "1970-01-01T00:00:00.000Z",
  actor: { userId: "u" },
  clientIp: "",
  userAgent: "",
  method: "POST",
  route: "/r",
  resource: "",
  action: "a.b",
  requestId: "r",
  traceId: "t",
  outcome: "success",
  httpStatus: 200,
  latencyUs: 5,
  sequence: null,
  receivedAt: "1970-01-01T00:00:00.000Z",
  producer: "gateway",
  log: 0,
};
const NO_PROOF = {
  leafData: Buffer.of(),
  leafHash: Buffer.of(),
  inclusionProof: [],
  checkpoint: "",
  noted: undefined,
};

const PROOFS: Partial<Backends["auditQuery"]> = {
  getEntry: async ({ id }) => ({ entry: { ...ENTRY, id }, ...NO_PROOF }),
  getCheckpoint: async ({ log }) => ({ checkpoint: `note ${log}`, verifierKey: "key", logs: [0, 9] }),
  proveInclusion: async ({ sequence, treeSize, log }) => ({
    leafHash: Buffer.of(sequence),
    proof: [Buffer.of(treeSize, log)],
  }),
  proveConsistency: async ({ firstSize, secondSize, log }) => ({
    proof: [Buffer.of(firstSize), Buffer.of(secondSize, log)],
  }),
};

test.each([
  ["an event", { kind: EntryKind.EVENT, reason: "why" }, { kind: "event", reason: "why" }],
  ["a failure", { outcome: Outcome.FAILURE, errorCode: "busy" }, { outcome: "failure", errorCode: "busy" }],
  ["an outcome of a later version", { outcome: 9 as Outcome }, { outcome: "unknown" }],
  ["an entry with its place", { sequence: 7, receivedAt: new Date(1) }, { sequence: 7 }],
])("%s is read as the document says", async (_what, message, json) => {
  const entry = { ...ENTRY, ...message };
  const { app } = testGateway({ auditQuery: { getEntry: async () => ({ entry, ...NO_PROOF }) } });
  const response = await send(app, { url: `/admin/audit/${USER_ID}`, token: "admin-token" });
  expect(response.json().data.entry).toMatchObject(json);
});

test("the proof of an entry is base64, its leaf the text that was hashed", async () => {
  const proof = {
    leafData: Buffer.from('{"a":"é"}'),
    leafHash: Buffer.of(1),
    inclusionProof: [Buffer.of(2)],
    checkpoint: "note",
  };
  const noted = { ...proof, leafHash: Buffer.of(3), checkpoint: "note of log 0" };
  const getEntry = vi.fn<Backends["auditQuery"]["getEntry"]>(async () => ({
    entry: { ...ENTRY, log: 1 },
    ...proof,
    noted,
  }));
  const { app } = testGateway({ auditQuery: { getEntry } });
  const read = async () =>
    (await send(app, { url: `/admin/audit/${USER_ID}`, token: "admin-token" })).json().data;
  const json = { leafData: '{"a":"é"}', leafHash: "AQ==", inclusionProof: ["Ag=="], checkpoint: "note" };
  expect(await read()).toMatchObject({
    entry: { log: 1 },
    proof: { ...json, noted: { ...json, leafHash: "Aw==", checkpoint: "note of log 0" } },
  });
  getEntry.mockResolvedValueOnce({ entry: ENTRY, ...proof, noted: undefined });
  expect((await read()).proof).toEqual({ ...json, noted: null });
});

test.each([
  [`/admin/audit/${USER_ID}`, { entry: ENTRY_JSON, proof: null }],
  ["/admin/audit/checkpoint", { checkpoint: "note 0", verifierKey: "key", logs: [0, 9] }],
  ["/admin/audit/checkpoint?log=255", { checkpoint: "note 255", verifierKey: "key", logs: [0, 9] }],
  ["/admin/audit/inclusion?sequence=3&treeSize=7", { leafHash: "Aw==", proof: ["BwA="] }],
  ["/admin/audit/inclusion?sequence=3&treeSize=7&log=1", { leafHash: "Aw==", proof: ["BwE="] }],
  ["/admin/audit/consistency?from=3&to=7", { proof: ["Aw==", "BwA="] }],
  ["/admin/audit/consistency?from=3&to=7&log=1", { proof: ["Aw==", "BwE="] }],
])("%s is for administrators and auditors only", async (url, data) => {
  const { app } = testGateway({ auditQuery: PROOFS });
  for (const token of ["admin-token", "auditor-token"]) {
    const response = await send(app, { url, token });
    expect(response.json().data).toEqual(data);
    expect(response.headers["cache-control"]).toBe("no-store");
  }
  expect((await send(app, { url, token: "user-token" })).statusCode).toBe(403);
  expect((await send(app, { url })).statusCode).toBe(401);
});

test.each([
  "me",
  "inclusion",
  "inclusion?sequence=0&treeSize=1",
  "inclusion?sequence=1&treeSize=1e3",
  "consistency?from=1",
  "consistency?from=-1&to=2",
  "consistency?from=1&to=99999999999999999",
  // Would be rounded to another one.
  "consistency?from=1&to=9007199254740993",
  "checkpoint?log=256",
  "checkpoint?log=-1",
  "checkpoint?log=01",
  "inclusion?sequence=1&treeSize=1&log=",
  "consistency?from=1&to=2&log=1e2",
])("/admin/audit/%s is refused", async (path) => {
  const { app } = testGateway({ auditQuery: PROOFS });
  const response = await send(app, { url: `/admin/audit/${path}`, token: "admin-token" });
  expect(response.statusCode).toBe(400);
});
