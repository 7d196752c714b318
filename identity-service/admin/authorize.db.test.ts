import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { BUILT_IN_PERMISSIONS, parseAccessFile } from "#access-file/access-file.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { UserLink, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { testDeps } from "../testing/test-deps.ts";
import { createUserAdminRpc } from "../user-admin-rpc.ts";
import { countUsersOfOtherRoles } from "./user-admin-store.ts";

const STAYS = {
  disableClients: false,
  role: "",
  status: UserStatus.UNSPECIFIED,
  mustChangePassword: undefined,
  reason: "",
};

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "session_ends", "mail_outbox");
  deps = await testDeps(database.sql);
});
afterAll(() => database.drop());

async function plant(role: string): Promise<string> {
  const id = deps.newId();
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    values (${id}, ${`${id}@example.com`}, 'Ada', 'L', ${role}, 'active', true, now(), now())`;
  return id;
}

async function plantPasskey(userId: string): Promise<string> {
  const id = deps.newId();
  await database.ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible,
      is_backed_up, name, created_at)
    values (${id}, ${userId}, ${Buffer.from(id)}, ${Buffer.alloc(1)}, 0, '{}', false, false, 'Phone', now())`;
  return id;
}

type Who = { role: string; scopes?: string[] } | { person: string } | undefined;

function contextOf(who: Who): RpcContext {
  const context = { ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" } as unknown as RpcContext;
  if (who === undefined) return context;
  if ("person" in who) return { ...context, person: who.person };
  return { ...context, actor: { userId: deps.newId(), sessionId: deps.newId(), ...who } };
}

const rpc = () => createUserAdminRpc(deps, async () => undefined);
const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (error: { code: string }) => error.code,
  );
const assign = (userId: string, role: string, who: Who) =>
  codeOf(rpc().setUserAccess({ ...STAYS, userId, role }, contextOf(who)));
const unlock = (userId: string, who: Who) => codeOf(rpc().unlockUser({ userId, reason: "" }, contextOf(who)));

const METHODS = {
  listUsers: () =>
    codeOf(
      rpc().listUsers(
        {
          ...STAYS,
          query: "",
          ids: [],
          sort: 0,
          neverLoggedIn: false,
          lastLoginBefore: undefined,
          cursor: "",
          limit: 1,
        },
        contextOf(who),
      ),
    ),
  getManagedUser: (userId: string) => codeOf(rpc().getManagedUser({ userId }, contextOf(who))),
  getUserFigures: () => codeOf(rpc().getUserFigures({}, contextOf(who))),
  unlockUser: (userId: string) => codeOf(rpc().unlockUser({ userId, reason: "" }, contextOf(who))),
  endUserSessions: (userId: string) =>
    codeOf(rpc().endUserSessions({ userId, sessionId: "", reason: "" }, contextOf(who))),
  inviteUser: () => {
    const person = { email: `${deps.newId()}@example.com`, firstName: "Ada", lastName: "" };
    return codeOf(rpc().inviteUser({ ...person, role: "", reason: "" }, contextOf(who)));
  },
  mailUser: (userId: string) =>
    codeOf(rpc().mailUser({ userId, link: UserLink.RESET, reason: "" }, contextOf(who))),
  setUserAccess: (userId: string) =>
    codeOf(rpc().setUserAccess({ ...STAYS, userId, mustChangePassword: true }, contextOf(who))),
  removeUserPasskey: async (userId: string) => {
    const passkeyId = await plantPasskey(userId);
    return codeOf(rpc().removeUserPasskey({ userId, passkeyId, reason: "" }, contextOf(who)));
  },
  resetUserMfa: (userId: string) => codeOf(rpc().resetUserMfa({ userId, reason: "" }, contextOf(who))),
  listUsedApprovals: () =>
    codeOf(rpc().listUsedApprovals({ from: undefined, to: undefined, cursor: "", limit: 1 }, contextOf(who))),
  deleteUser: (userId: string) =>
    codeOf(rpc().deleteUser({ userId, reason: "", disableClients: false }, contextOf(who))),
};
let who: Who;

test.each([
  ["USER", []],
  [
    "SUPPORT",
    [
      "listUsers",
      "getManagedUser",
      "getUserFigures",
      "unlockUser",
      "endUserSessions",
      "inviteUser",
      "mailUser",
      "removeUserPasskey",
      "resetUserMfa",
    ],
  ],
  ["AUDITOR", []],
  ["ADMIN", Object.keys(METHODS).filter((name) => name !== "listUsedApprovals")],
] as const)("whatever the gateway has decided, the role %s may call %j only", async (role, allowed) => {
  who = { role };
  const answers: Record<string, string> = {};
  for (const [name, call] of Object.entries(METHODS)) {
    const answer = async () => {
      answers[name] = await call(await plant("USER"));
      return answers[name];
    };
    // The figures are on their way for a moment.
    await expect.poll(answer).not.toBe("service_unavailable");
  }
  const expected = Object.keys(METHODS).map((name) => [
    name,
    (allowed as readonly string[]).includes(name) ? "done" : "forbidden",
  ]);
  expect(answers).toEqual(Object.fromEntries(expected));
});

test("a call without an actor, and one of a role that has gone, may do nothing; an operator may do all", async () => {
  for (const [caller, expected] of [
    [undefined, "forbidden"],
    [{ role: "GONE" }, "role_not_defined"],
    [{ role: "" }, "role_not_defined"],
    [{ person: "operator:ada" }, "done"],
  ] as const) {
    who = caller;
    for (const [name, call] of Object.entries(METHODS)) {
      const isForPersons = name === "listUsedApprovals" && expected !== "done";
      expect([name, await call(await plant("USER"))]).toEqual([name, isForPersons ? "forbidden" : expected]);
    }
  }
});

test("nobody acts on themselves through the administrators' methods, whatever their role; they may read", async () => {
  await plant("ADMIN");
  for (const role of ["SUPPORT", "ADMIN"]) {
    const userId = await plant(role);
    const self = { ...contextOf({ role }), actor: { userId, sessionId: deps.newId(), role } };
    const reason = "";
    const acts = {
      unlockUser: () => rpc().unlockUser({ userId, reason }, self),
      mailUser: () => rpc().mailUser({ userId, link: UserLink.RESET, reason }, self),
      endUserSessions: () =>
        rpc().endUserSessions({ userId: userId.toUpperCase(), sessionId: "", reason }, self),
      removeUserPasskey: () => rpc().removeUserPasskey({ userId, passkeyId: deps.newId(), reason }, self),
      resetUserMfa: () => rpc().resetUserMfa({ userId, reason }, self),
      setUserAccess: () => rpc().setUserAccess({ ...STAYS, userId, mustChangePassword: false }, self),
      deleteUser: () => rpc().deleteUser({ userId, reason, disableClients: false }, self),
    };
    for (const [name, act] of Object.entries(acts))
      expect([role, name, await codeOf(Promise.resolve().then(act))]).toEqual([role, name, "forbidden"]);
    const read = Promise.resolve().then(() => rpc().getManagedUser({ userId }, self));
    expect(await codeOf(read)).toBe("done");
  }
});

test("SUPPORT helps users, and nobody who may administer more", async () => {
  const support = { role: "SUPPORT" };
  expect(await unlock(await plant("USER"), support)).toBe("done");
  expect(await unlock(await plant("SUPPORT"), support)).toBe("done");
  expect(await unlock(await plant("GONE"), support)).toBe("done");
  for (const role of ["ADMIN", "AUDITOR"]) {
    const userId = await plant(role);
    expect(await unlock(userId, support)).toBe("forbidden");
    expect(
      await codeOf(rpc().endUserSessions({ userId, sessionId: "", reason: "" }, contextOf(support))),
    ).toBe("forbidden");
    expect(await codeOf(rpc().resetUserMfa({ userId, reason: "" }, contextOf(support)))).toBe("forbidden");
    const mail = { userId, link: UserLink.RESET, reason: "" };
    expect(await codeOf(rpc().mailUser(mail, contextOf(support)))).toBe("forbidden");
  }
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
});

test("whoever holds every permission by name still acts on nobody who holds *, by any method", async () => {
  const all = JSON.stringify(BUILT_IN_PERMISSIONS);
  deps.access.replace(
    parseAccessFile(`roles: { ADMIN: ["*"], ALMOST: ${all}, USER: [] }\ndefaultRole: USER`),
  );
  await plant("ADMIN");
  who = { role: "ALMOST" };
  for (const method of [
    "unlockUser",
    "mailUser",
    "endUserSessions",
    "setUserAccess",
    "removeUserPasskey",
    "resetUserMfa",
    "deleteUser",
  ] as const) {
    expect([method, await METHODS[method](await plant("ADMIN"))]).toEqual([method, "forbidden"]);
    expect([method, await METHODS[method](await plant("USER"))]).toEqual([method, "done"]);
  }
});

test("nobody assigns more than they hold, or takes a role from a user who holds more", async () => {
  deps.access.replace(
    parseAccessFile(`
      permissions: [payments:read, payments:write]
      roles:
        ADMIN: ["*"]
        USER: [payments:read]
        PAYER: [payments:write]
        LEAD: [users:read, users:write, roles:assign, payments:read]
        WRITER: [users:read, users:write, payments:read]
      defaultRole: USER`),
  );
  const lead = { role: "LEAD" };
  const userId = await plant("USER");
  expect(await assign(userId, "PAYER", lead)).toBe("forbidden");
  expect(await assign(userId, "ADMIN", lead)).toBe("forbidden");
  expect(await assign(userId, "NOWHERE", lead)).toBe("validation_failed");
  expect(await assign(await plant("ADMIN"), "USER", lead)).toBe("forbidden");
  expect(await assign(await plant("PAYER"), "USER", lead)).toBe("done");
  expect(await assign(userId, "WRITER", lead)).toBe("done");
  expect(await assign(await plant("PAYER"), "USER", { role: "WRITER" })).toBe("forbidden");
  expect(await assign(userId, "NOWHERE", { person: "operator:ada" })).toBe("validation_failed");
  expect(await assign(userId, "PAYER", { person: "operator:ada" })).toBe("done");
});

test("whoever may not read users learns of no address whether it has an account", async () => {
  const taken = `${await plant("USER")}@example.com`;
  const move = async (email: string, scopes: string[]) =>
    codeOf(
      rpc().setUserAccess({ ...STAYS, userId: await plant("USER"), email }, contextOf({ role: "", scopes })),
    );
  for (const email of [taken, "nobody@example.com"])
    expect([email, await move(email, ["users:write"])]).toEqual([email, "forbidden"]);
  expect(await move(taken, ["users:read", "users:write"])).toBe("email_already_registered");
  expect(await move("nobody@example.com", ["users:read", "users:write"])).toBe("done");
});

test("users of roles that are in the file no more are counted, also those of USER", async () => {
  for (const role of ["USER", "USER", "ADMIN", "GONE"]) await plant(role);
  expect(await countUsersOfOtherRoles(deps.sql, deps.access.roles)).toBe(1);
  expect(await countUsersOfOtherRoles(deps.sql, ["ADMIN", "GONE"])).toBe(2);
  expect(await countUsersOfOtherRoles(deps.sql, ["USER", "ADMIN", "GONE"])).toBe(0);
});

test("a client may do what it was granted, and acts on nobody who may administer more", async () => {
  const client = { role: "", scopes: ["users:unlock"] };
  expect(await unlock(await plant("USER"), client)).toBe("done");
  expect(await unlock(await plant("SUPPORT"), client)).toBe("forbidden");
  expect(await unlock(await plant("USER"), { role: "ADMIN", scopes: [] })).toBe("forbidden");
});

test("a client acts on nobody who may make clients: it could be their own", async () => {
  const held = ["users:unlock", "clients:write"];
  deps.access.replace(
    parseAccessFile(`roles: { ADMIN: ["*"], USER: [], LEAD: [${held.join(", ")}] }\ndefaultRole: USER`),
  );
  expect(await unlock(await plant("LEAD"), { role: "", scopes: held })).toBe("forbidden");
  expect(await unlock(await plant("LEAD"), { role: "LEAD" })).toBe("done");
  expect(await unlock(await plant("USER"), { role: "", scopes: held })).toBe("done");
});

test("a change of the file is in force for the next call", async () => {
  const userId = await plant("USER");
  expect(await unlock(userId, { role: "CLERK" })).toBe("role_not_defined");
  deps.access.replace(
    parseAccessFile('roles: { ADMIN: ["*"], USER: [], CLERK: [users:unlock] }\ndefaultRole: USER'),
  );
  expect(await unlock(userId, { role: "CLERK" })).toBe("done");
});
