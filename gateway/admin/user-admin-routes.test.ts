import { expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import {
  type DeleteUserRequest,
  type SetUserAccessRequest,
  TotalIs,
  type UserDetails,
  UserMailState,
  UserSort,
  UserStatus,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Backends } from "../backends/backends.ts";
import { ada, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const managed = {
  user: ada,
  status: UserStatus.ACTIVE,
  firstLoginAt: undefined,
  lastLoginAt: new Date("2026-03-02T10:00:00Z"),
  mustChangePassword: false,
};
const AT = new Date("2026-03-01T10:00:00Z");
const details: UserDetails = {
  locked: true,
  lockedUntil: AT,
  totpSince: AT,
  passkeys: [{ id: USER_ID, name: "Phone", createdAt: AT, lastUsedAt: undefined }],
  recoveryCodesLeft: 9,
  providers: [{ provider: "demo", linkedAt: AT }],
  trustedDevices: 2,
  mails: [
    {
      template: "verify-email",
      createdAt: AT,
      state: UserMailState.WAITING,
      endedAt: undefined,
      attempts: 1,
    },
    { template: "later", createdAt: AT, state: 99 as UserMailState, endedAt: AT, attempts: 0 },
  ],
};
const OTHER = "0199a000-0000-7000-8000-0000000000aa";

function gateway(overrides: Partial<Backends["users"]> = {}) {
  const list = vi.fn(async () => ({
    users: [managed],
    nextCursor: "",
    total: 50_000,
    totalIs: TotalIs.ABOUT,
  }));
  const get = vi.fn(async () => ({ user: managed, details }));
  const setAccess = vi.fn(async ({ mustChangePassword = false }: SetUserAccessRequest) => ({
    user: { ...managed, mustChangePassword },
    endedSessionIds: ["s1", "s2"],
    clients: undefined,
  }));
  const remove = vi.fn(async () => ({ endedSessionIds: ["s3"], clients: undefined }));
  const endSessions = vi.fn(async () => ({ endedSessionIds: ["s4"] }));
  const resetMfa = vi.fn(async () => ({ endedSessionIds: ["s5"] }));
  const removePasskey = vi.fn(async () => ({ endedSessionIds: ["s6"] }));
  const unlock = vi.fn(async () => ({}));
  const invite = vi.fn(async () => ({ user: managed }));
  const mail = vi.fn(async () => ({}));
  const built = testGateway({
    users: {
      listUsers: list,
      getManagedUser: get,
      setUserAccess: setAccess,
      deleteUser: remove,
      resetUserMfa: resetMfa,
      removeUserPasskey: removePasskey,
      endUserSessions: endSessions,
      unlockUser: unlock,
      inviteUser: invite,
      mailUser: mail,
      ...overrides,
    },
    sessions: { listSessions: async () => ({ sessions: [] }) },
  });
  return {
    ...built,
    list,
    get,
    setAccess,
    remove,
    endSessions,
    resetMfa,
    removePasskey,
    unlock,
    invite,
    mail,
  };
}

const ROUTES = [
  { method: "GET", url: "/admin/users" },
  { method: "GET", url: `/admin/users/${OTHER}` },
  { method: "PATCH", url: `/admin/users/${OTHER}`, body: { status: "disabled" } },
  { method: "DELETE", url: `/admin/users/${OTHER}` },
  { method: "POST", url: `/admin/users/${OTHER}/sessions/revoke` },
  { method: "POST", url: `/admin/users/${OTHER}/mfa/reset` },
  { method: "POST", url: `/admin/users/${OTHER}/unlock` },
  { method: "GET", url: `/admin/users/${OTHER}/sessions` },
  { method: "POST", url: "/admin/user-search", body: { query: "ada@example.com" } },
  {
    method: "POST",
    url: "/admin/users",
    body: { email: "new@example.com", firstName: "New", lastName: "" },
    status: 201,
  },
  { method: "POST", url: `/admin/users/${OTHER}/mail`, body: { link: "reset" } },
  { method: "DELETE", url: `/admin/users/${OTHER}/passkeys/${USER_ID}` },
] as const;

test("a role of the access file is forwarded by name", async () => {
  const clerk = { ...managed, user: { ...ada, role: "MERCHANT_CLERK" } };
  const call = {
    method: "PATCH",
    url: `/admin/users/${OTHER}`,
    token: "admin-token",
    body: { role: "MERCHANT_CLERK" },
  } as const;
  const setUserAccess = vi.fn(async () => ({ user: clerk, endedSessionIds: [], clients: undefined }));
  const answer = await send(gateway({ setUserAccess }).app, call);
  expect(answer.json().data.user.role).toBe("MERCHANT_CLERK");
  const wanted = { role: "MERCHANT_CLERK" };
  expect(setUserAccess).toHaveBeenCalledWith(expect.objectContaining(wanted), expect.anything());
});

test("each route asks for its own permission", async () => {
  const { app } = gateway();
  const allowed = await Promise.all(
    ROUTES.map(async (route) => (await send(app, { ...route, token: "support-token" })).statusCode !== 403),
  );
  expect(allowed).toEqual([true, true, false, false, true, true, true, true, true, true, true, true]);
});

test.each(ROUTES)("$method $url is for administrators only", async (route) => {
  const { app, list, get, setAccess, remove, endSessions, resetMfa, invite, mail } = gateway();
  for (const [token, status] of [
    ["user-token", 403],
    ["auditor-token", 403],
    ["revoked-token", 401],
  ] as const) {
    expect((await send(app, { ...route, token })).statusCode).toBe(status);
  }
  for (const call of [list, get, setAccess, remove, endSessions, resetMfa, invite, mail])
    expect(call).not.toHaveBeenCalled();
  expect((await send(app, { ...route, token: "admin-token" })).statusCode).toBe(
    "status" in route ? route.status : 200,
  );
});

test("the list forwards its filters, and has fifty users by default", async () => {
  const { app, list } = gateway();
  const query =
    "query=ada&role=ADMIN&status=disabled&secondFactor=no&lastLogin=never&sort=oldest&cursor=c&limit=100";
  const answer = await send(app, { url: `/admin/users?${query}`, token: "admin-token" });
  expect(answer.json().data).toMatchObject({
    users: [{ id: USER_ID, status: "active" }],
    nextCursor: null,
    total: 50_000,
    totalIs: "about",
  });
  const filter = {
    query: "ada",
    ids: [],
    role: "ADMIN",
    status: UserStatus.DISABLED,
    hasSecondFactor: false,
    neverLoggedIn: true,
    lastLoginBefore: undefined,
    sort: UserSort.OLDEST,
    cursor: "c",
    limit: 100,
  };
  expect(list).toHaveBeenLastCalledWith(filter, expect.anything());
  await send(app, { url: "/admin/users", token: "admin-token" });
  expect(list).toHaveBeenLastCalledWith(
    {
      query: "",
      ids: [],
      role: "",
      status: UserStatus.UNSPECIFIED,
      hasSecondFactor: undefined,
      neverLoggedIn: false,
      lastLoginBefore: undefined,
      sort: UserSort.NEWEST,
      cursor: "",
      limit: 50,
    },
    expect.anything(),
  );
});

test.each(["limit=0", "limit=101", "role=owner", "status=locked", "sort=asc", "query="])(
  "?%s is refused",
  async (query) => {
    const { app } = gateway();
    const answer = await send(app, { url: `/admin/users?${query}`, token: "admin-token" });
    expect(answer.statusCode).toBe(400);
  },
);

test.each([
  {},
  { role: "owner" },
  { status: "locked" },
  { role: "USER", email: "nobody" },
  { role: null },
  { reason: "Ticket 4711" },
  { firstName: "" },
  { lastName: "A\u202eb" },
])("a change to %j is refused", async (body) => {
  const { app, setAccess } = gateway();
  const answer = await send(app, {
    method: "PATCH",
    url: `/admin/users/${OTHER}`,
    body,
    token: "admin-token",
  });
  expect(answer.statusCode).toBe(400);
  expect(setAccess).not.toHaveBeenCalled();
});

test("who disables or deletes a user is shown the clients, and says what becomes of them", async () => {
  const clients = { clients: [{ id: OTHER, name: "Shop", active: false }] };
  const setUserAccess = vi.fn(async (_: SetUserAccessRequest) => ({
    user: managed,
    endedSessionIds: [],
    clients,
  }));
  const deleteUser = vi.fn(async (_: DeleteUserRequest) => ({ endedSessionIds: [], clients }));
  const { app } = gateway({ setUserAccess, deleteUser });
  const url = `/admin/users/${OTHER}`;
  const change = (body: object) => send(app, { method: "PATCH", url, body, token: "admin-token" });
  const remove = (body?: object) =>
    send(app, { method: "DELETE", url, token: "admin-token", ...(body && { body }) });
  const left = [{ id: OTHER, name: "Shop", status: "disabled" }];
  for (const [answer, disableClients] of [
    [await change({ status: "disabled", clients: "disable" }), true],
    [await change({ status: "disabled", clients: "keep" }), false],
    [await change({ status: "disabled" }), false],
  ] as const) {
    expect(answer.json().data.clients).toEqual(left);
    expect(setUserAccess.mock.calls.shift()?.[0]).toMatchObject({ disableClients });
  }
  for (const [body, disableClients] of [
    [{ clients: "disable" }, true],
    [{ clients: "keep" }, false],
    [undefined, false],
  ] as const) {
    expect((await remove(body)).json().data.clients).toEqual(left);
    expect(deleteUser.mock.calls.shift()?.[0]).toMatchObject({ disableClients });
  }
  for (const answer of [
    await change({ status: "disabled", clients: "all" }),
    await remove({ clients: "all" }),
  ])
    expect(answer.statusCode).toBe(400);
});

test("sessions that a change, a deletion or an administrator ends are refused at once", async () => {
  const { app, refused } = gateway();
  for (const route of ROUTES) await send(app, { ...route, token: "admin-token" });
  expect(refused).toEqual(["s1", "s2", "s3", "s4", "s5", "s6"]);
});

test("what administrators do is audited by name and with the user's id; reading is not", async () => {
  const { app, entries } = gateway();
  for (const route of ROUTES) await send(app, { ...route, token: "admin-token" });
  const intents = entries.filter(({ kind }) => kind === "intent");
  expect(intents.map(({ action, resource }) => [action, resource])).toEqual([
    ["admin.users.update", OTHER],
    ["admin.users.delete", OTHER],
    ["admin.users.revoke_sessions", OTHER],
    ["admin.users.reset_mfa", OTHER],
    ["admin.users.unlock", OTHER],
    ["admin.users.invite", ""],
    ["admin.users.mail", OTHER],
    ["admin.users.remove_passkey", OTHER],
  ]);
});

test("one user's page has what helps the user", async () => {
  const time = AT.toISOString();
  const { app } = gateway();
  const page = async () =>
    (await send(app, { url: `/admin/users/${OTHER}`, token: "support-token" })).json().data;
  expect((await page()).user.lastLoginAt).toBe("2026-03-02T10:00:00.000Z");
  expect((await page()).details).toEqual({
    locked: true,
    lockedUntil: time,
    totpSince: time,
    passkeys: [{ id: USER_ID, name: "Phone", createdAt: time, lastUsedAt: null }],
    recoveryCodesLeft: 9,
    providers: [{ provider: "demo", linkedAt: time }],
    trustedDevices: 2,
    mails: [
      { template: "verify-email", createdAt: time, state: "waiting", endedAt: null, attempts: 1 },
      { template: "later", createdAt: time, state: "unknown", endedAt: time, attempts: 0 },
    ],
  });
});

test("whoever acts on a user may say why, and need not", async () => {
  const { app, setAccess, remove, endSessions, resetMfa, removePasskey, unlock, invite, mail } = gateway();
  const acts = ROUTES.filter(({ method, url }) => method !== "GET" && !url.endsWith("-search"));
  const calls = [setAccess, remove, endSessions, resetMfa, removePasskey, unlock, mail];
  for (const why of [{ reason: "Ticket 4711" }, {}]) {
    for (const route of acts) {
      const body = { ...("body" in route && route.body), ...why };
      const { statusCode } = await send(app, { ...route, body, token: "admin-token" });
      expect(statusCode).toBe("status" in route ? route.status : 200);
    }
    const sent = expect.objectContaining({ userId: OTHER, reason: why.reason ?? "" });
    for (const call of calls) expect(call).toHaveBeenLastCalledWith(sent, expect.anything());
    const invited = expect.objectContaining({ email: "new@example.com", role: "", reason: why.reason ?? "" });
    expect(invite).toHaveBeenLastCalledWith(invited, expect.anything());
  }
  for (const route of acts) {
    for (const reason of ["", "r".repeat(121), 7, null]) {
      const body = { ...("body" in route && route.body), reason };
      expect((await send(app, { ...route, body, token: "admin-token" })).statusCode).toBe(400);
    }
  }
});

test("one session is named in the body; without one, all end", async () => {
  const { app, endSessions } = gateway();
  const end = (body?: object) =>
    send(app, {
      method: "POST",
      url: `/admin/users/${OTHER}/sessions/revoke`,
      body,
      token: "admin-token",
    });
  expect((await end({ sessionId: USER_ID.toUpperCase() })).statusCode).toBe(200);
  expect(endSessions).toHaveBeenLastCalledWith(
    { userId: OTHER, sessionId: USER_ID, reason: "" },
    expect.anything(),
  );
  expect((await end()).statusCode).toBe(200);
  expect(endSessions).toHaveBeenLastCalledWith(
    { userId: OTHER, sessionId: "", reason: "" },
    expect.anything(),
  );
  for (const sessionId of ["", "s1", null]) expect((await end({ sessionId })).statusCode).toBe(400);
  expect(endSessions).toHaveBeenCalledTimes(2);
});

test("the last administrator is 409 last_admin, an unknown user is 404 not_found", async () => {
  const fails = (code: "last_admin" | "not_found") => () => Promise.reject(new DomainError(code));
  const last = gateway({ setUserAccess: fails("last_admin"), deleteUser: fails("last_admin") });
  for (const route of ROUTES.slice(2, 4)) {
    const answer = await send(last.app, { ...route, token: "admin-token" });
    expect([answer.statusCode, answer.json().error.code]).toEqual([409, "last_admin"]);
  }
  const nobody = gateway({ getManagedUser: fails("not_found"), endUserSessions: fails("not_found") });
  for (const route of [ROUTES[1], ROUTES[4]]) {
    const answer = await send(nobody.app, { ...route, token: "admin-token" });
    expect([answer.statusCode, answer.json().error.code]).toEqual([404, "not_found"]);
  }
});

test("an administrator corrects a name, of which the last part may be empty; support may not", async () => {
  const { app, setAccess } = gateway();
  const url = `/admin/users/${OTHER}`;
  for (const body of [{ firstName: "Zoe" }, { lastName: "" }]) {
    const rename = { method: "PATCH", url, body } as const;
    expect((await send(app, { ...rename, token: "support-token" })).statusCode).toBe(403);
    expect((await send(app, { ...rename, token: "admin-token" })).statusCode).toBe(200);
    const names = { firstName: undefined, lastName: undefined, ...body };
    expect(setAccess).toHaveBeenLastCalledWith(expect.objectContaining(names), expect.anything());
  }
  expect(setAccess).toHaveBeenCalledTimes(2);
});

test("an administrator asks for another password, and takes that back", async () => {
  const { app, setAccess, refused } = gateway();
  const url = `/admin/users/${OTHER}`;
  for (const mustChangePassword of [true, false]) {
    const body = { mustChangePassword };
    const answer = await send(app, { method: "PATCH", url, token: "admin-token", body });
    expect(answer.json().data.user).toMatchObject({ mustChangePassword });
    const rest = { role: "", status: UserStatus.UNSPECIFIED };
    const sent = { userId: OTHER, disableClients: false, ...rest, ...body, reason: "" };
    expect(setAccess).toHaveBeenLastCalledWith(sent, expect.anything());
  }
  expect(refused).toEqual(["s1", "s2", "s1", "s2"]);
  for (const mustChangePassword of ["true", 1, null]) {
    const body = { mustChangePassword };
    const answer = await send(app, { method: "PATCH", url, token: "admin-token", body });
    expect(answer.json().error.code).toBe("validation_failed");
  }
});

test.each([
  ["no user", { ...managed, user: undefined }],
  ["a status that is not known", { ...managed, status: UserStatus.UNSPECIFIED }],
  ["a role that is not known", { ...managed, user: { ...ada, role: "" } }],
])("%s is a defect, not a user", async (_what, user) => {
  const { app } = gateway({ getManagedUser: async () => ({ user, details }) });
  const answer = await send(app, { url: `/admin/users/${OTHER}`, token: "admin-token" });
  expect(answer.json().error.code).toBe("internal_error");
});

test.each([
  {
    query: { query: "Ada@Example.com", role: "ADMIN" },
    filter: "role=ADMIN limit=50",
    address: "ada@example.com",
  },
  { query: { query: "ada", cursor: "c" }, filter: "limit=50 queryCharacters=3", address: undefined },
])(
  "$query, by URL or by body: the audit log has the reader and the query, with addresses where they can be erased",
  async ({ query, filter, address }) => {
    const { app, readings, list } = gateway();
    await send(app, { url: `/admin/users?${new URLSearchParams(query)}`, token: "admin-token" });
    await send(app, { method: "POST", url: "/admin/user-search", body: query, token: "admin-token" });
    const [byUrl, byBody] = list.mock.calls as unknown[][];
    expect(byBody?.[0]).toEqual(byUrl?.[0]);
    expect(readings).toHaveLength(2);
    expect(readings[1]).toMatchObject({ action: "user.listed", resource: "", reason: filter });
    expect(readings[1]?.actor.claimedEmail).toBe(address);
    expect(readings[0]).toMatchObject({ action: "user.listed", resource: "", reason: filter });
    expect(readings[0]?.actor).toMatchObject({ userId: USER_ID, role: "ADMIN" });
    expect(readings[0]?.actor.claimedEmail).toBe(address);
  },
);

test("the log has whose account was read; of whom may not read, nothing", async () => {
  const { app, readings } = gateway();
  await send(app, { url: `/admin/users/${OTHER}`, token: "user-token" });
  await send(app, { url: `/admin/users/${OTHER}`, token: "admin-token" });
  expect(readings).toMatchObject([{ action: "user.read", resource: OTHER, actor: { userId: USER_ID } }]);
});

test("figures are for who may read users, and an estimate is said to be one", async () => {
  const countedAt = new Date("2026-03-01T10:00:00Z");
  const users = { count: 12_000_000, isEstimate: true };
  const built = testGateway({ users: { getUserFigures: async () => ({ countedAt, users }) as never } });
  const read = (token: string) => send(built.app, { url: "/admin/users/figures", token });
  for (const token of ["user-token", "auditor-token"]) expect((await read(token)).statusCode).toBe(403);
  const { data } = (await read("support-token")).json();
  expect(data).toMatchObject({ countedAt: countedAt.toISOString(), figures: { length: 7 } });
  expect(data.figures).toContainEqual({ name: "users", ...users });
  expect(data.figures).toContainEqual({ name: "active", count: 0, isEstimate: false });
});
