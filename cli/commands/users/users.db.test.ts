import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import { CLIENT_ADMIN_CALLERS, createClientAdminRpc } from "#identity-service/client-admin-rpc.ts";
import { testDeps } from "#identity-service/testing/test-deps.ts";
import { createUserAdminRpc, USER_ADMIN_CALLERS } from "#identity-service/user-admin-rpc.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { ClientAdminServiceService } from "#proto/gatehouse/identity/v1/client_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";
import type { UserView } from "./user-view.ts";

let certificates: TestCertificates;
let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let readings: ReturnType<typeof noteReadings>;
let server: RpcServer;
let port: number;
let ada: string;
/** Of the next calls that end sessions; undefined: none. */
let faults: (DomainError | undefined)[];
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gatehouse-users-cli-"));
  certificates = await createTestCertificates();
  database = await createTestDatabase("identity-service");
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await certificates.remove();
  await database.drop();
});
beforeEach(async () => {
  await emptyTables(
    database.ownerSql,
    "users",
    "counted_mails",
    "session_ends",
    "mail_outbox",
    "security_events",
  );
  deps = await testDeps(database.sql);
  readings = noteReadings();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  const { recordReading } = readings;
  faults = [];
  const userAdmin = createUserAdminRpc(deps, recordReading);
  server.add(UserAdminServiceService, USER_ADMIN_CALLERS, {
    ...userAdmin,
    async endUserSessions(request, context) {
      const fault = faults.shift();
      if (fault !== undefined) throw fault;
      return userAdmin.endUserSessions(request, context);
    },
  });
  server.add(ClientAdminServiceService, CLIENT_ADMIN_CALLERS, createClientAdminRpc(deps, recordReading));
  port = await server.listen();
  await plant("admin@example.com", "ADMIN");
  ada = await plant("ada@example.com", "USER");
});
afterEach(() => server.close(0));

async function plant(email: string, role: string): Promise<string> {
  const id = deps.newId();
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    values (${id}, ${email}, 'Ada', 'Lovelace', ${role}, 'active', true, now(), now())`;
  return id;
}

async function gatehouse(argv: string[], caller: Parameters<TestCertificates["of"]>[0] = "operator") {
  let [out, error] = ["", ""];
  const code = await run(argv, COMMANDS, {
    environment: { IDENTITY_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf(caller) },
    defaultHome: "/no such home",
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      error += text;
    },
  });
  return { code, out, error };
}

async function shown(id = ada): Promise<UserView> {
  return (JSON.parse((await gatehouse(["users", "show", id, "--json"])).out) as { user: UserView }).user;
}

test("users list shows users, filtered and page by page, as text and as JSON", async () => {
  const list = async (...options: string[]) => {
    const { out } = await gatehouse(["users", "list", "--json", ...options]);
    return JSON.parse(out) as { users: UserView[]; nextCursor: string | null };
  };
  const emails = async (...options: string[]) => (await list(...options)).users.map(({ email }) => email);
  expect(await emails()).toEqual(["ada@example.com", "admin@example.com"]);
  expect(await emails("--query", "ADMIN@")).toEqual(["admin@example.com"]);
  expect(await emails("--role", "USER")).toEqual(["ada@example.com"]);
  expect(await emails("--status", "disabled")).toEqual([]);
  const { nextCursor } = await list("--limit", "1");
  expect(await emails("--cursor", nextCursor ?? "")).toEqual(["admin@example.com"]);

  const { code, out } = await gatehouse(["users", "list", "--limit", "1"]);
  expect(code).toBe(0);
  const [head, row, of, more] = out.trimEnd().split("\n");
  expect(head?.split(/ {2,}/)).toEqual(["ID", "E-MAIL", "ROLE", "STATUS", "CREATED", "LAST LOGIN"]);
  expect(row).toMatch(new RegExp(`^${ada}  ada@example.com  USER  active .*Z  never$`));
  expect(of).toBe("1 of 2 users");
  expect(more).toBe(`More: --cursor ${ada}`);
});

test("users invite makes an account without a password, and users send-link mails it another link", async () => {
  const invite = ["users", "invite", "bob@example.com", "--first-name", "Bob", "--reason", "ticket 7"];
  const { code, out } = await gatehouse([...invite, "--json"]);
  expect(code).toBe(0);
  const { user } = JSON.parse(out) as { user: UserView };
  expect(user).toMatchObject({ email: "bob@example.com", lastName: "", role: "USER", emailVerified: false });
  expect((await gatehouse(invite)).error).toContain("e-mail address");
  const send = (link: string) => gatehouse(["users", "send-link", user.id, link]);
  expect((await send("confirmation")).out).toBe(`the mail to ${user.id} waits to be sent\n`);
  expect((await send("reset")).code).toBe(0);
  expect((await send("password")).error).toContain("confirmation or reset");
  const mails = await database.ownerSql`select template, recipient from mail_outbox order by created_at, id`;
  expect(mails.map(({ template, recipient }) => `${template} ${recipient}`)).toEqual([
    "invitation bob@example.com",
    "invitation bob@example.com",
    "reset-password bob@example.com",
  ]);
});

test("users export writes all pages of what fits, to standard output and to a file, without formulas", async () => {
  for (let n = 0; n < 205; n += 1) await plant(`bulk-${n}@example.com`, "USER");
  const firstName = "=1+1\u009b";
  await database.ownerSql`update users set first_name = ${firstName} where id = ${ada}`;
  const jsonl = await gatehouse(["users", "export", "--role", "USER"]);
  const users = jsonl.out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as UserView);
  expect(new Set(users.map(({ email }) => email)).size).toBe(206);
  expect(users.at(-1)).toEqual({ ...(await shown()), firstName });
  expect(jsonl.out).not.toContain("\u009b");
  const output = join(folder, "users.csv");
  const query = ["--query", "ada@example.com", "--format", "csv", "--output", output];
  const { out } = await gatehouse(["users", "export", ...query]);
  expect(out).toBe(`1 users were written to ${output}\n`);
  const [head, row, end] = readFileSync(output, "utf8").split("\n");
  expect(head).toBe(Object.keys(await shown()).join(","));
  expect(row).toMatch(`${ada},ada@example.com,'${firstName},Lovelace,USER,active,true,false,false,`);
  expect(end).toBe("");
  expect((await gatehouse(["users", "export", ...query])).code).toBe(73);
  expect((await gatehouse(["users", "export", "--format", "xml"])).code).toBe(64);
});

const NOBODY = "00000000-0000-4000-8000-000000000000";

test("acts on the users of a file go on after a refusal, and say at the end who was refused and why", async () => {
  const [bob, eve] = [await plant("bob@example.com", "USER"), await plant("eve@example.com", "USER")];
  const file = join(folder, "ids");
  writeFileSync(file, `# of ticket 7\n${bob}\r\n\n${NOBODY}\n  ${eve.toUpperCase()} \n${bob}\n`);
  for (const [act, facts] of [
    ["require-password-change", { mustChangePassword: true }],
    ["disable", { status: "disabled" }],
    ["unlock", { status: "disabled" }],
    ["enable", { status: "active" }],
  ] as const) {
    const { code, out } = await gatehouse(["users", act, "--from", file, "--reason", "ticket 7"]);
    expect(code).toBe(1);
    expect(out).toMatch(new RegExp(`Done for 2 of 3 users\nRefused: 1\n  ${NOBODY}  .+\n$`));
    for (const id of [bob, eve]) expect(await shown(id)).toMatchObject(facts);
  }
  const { out } = await gatehouse(["users", "end-sessions", "--from", file, "--json"]);
  expect(JSON.parse(out)).toMatchObject({
    done: [{ userId: bob }, { userId: eve }],
    refused: [{ id: NOBODY, code: "not_found" }],
    untried: [],
  });
  const changes = (await events()).filter((event) => /^(?:status_changed|unlocked)/.test(event));
  expect(changes).toEqual([
    ...Array(2).fill("status_changed disabled: ticket 7"),
    ...Array(2).fill("unlocked ticket 7"),
    ...Array(2).fill("status_changed active: ticket 7"),
  ]);
});

test("a file with a line that is no id changes nobody, nor does one without ids, or beside an id", async () => {
  const file = join(folder, "wrong");
  for (const [lines, problem] of [
    [`${ada}\nada@example.com\n`, "has no user's id in line 2. Nothing was done."],
    [`x\n${ada}\ny`, "has no user's id in 2 lines, first in line 1."],
    ["# nobody\n\n", "must have 1 to 100,000 ids"],
  ] as const) {
    writeFileSync(file, lines);
    const { code, error } = await gatehouse(["users", "disable", "--from", file]);
    expect([code, error]).toEqual([66, expect.stringContaining(problem)]);
    expect(error).not.toContain("ada@");
  }
  expect((await gatehouse(["users", "disable", "--from", join(folder, "absent")])).code).toBe(66);
  for (const words of [["--from", file, ada], [], ["ada@example.com"]])
    expect((await gatehouse(["users", "disable", ...words])).code).toBe(64);
  const one = ["--from", file, "--session", NOBODY];
  expect((await gatehouse(["users", "end-sessions", ...one])).error).toContain("--session is of one");
  expect(await shown()).toMatchObject({ status: "active" });
});

test("acts on many users wait where they come too fast, and stop where the service is away", async () => {
  const [bob, eve] = [await plant("bob@example.com", "USER"), await plant("eve@example.com", "USER")];
  const file = join(folder, "many");
  writeFileSync(file, [ada, bob, eve].join("\n"));
  const endAll = ["users", "end-sessions", "--from", file, "--json"];
  faults = [undefined, new DomainError("too_many_requests", undefined, { retryAfterMs: 1 })];
  const patient = await gatehouse(endAll);
  expect([patient.code, JSON.parse(patient.out)]).toMatchObject([0, { refused: [], untried: [] }]);
  expect(faults).toEqual([]);
  faults = [undefined, new DomainError("audit_unavailable")];
  const stopped = await gatehouse(endAll);
  expect([stopped.code, JSON.parse(stopped.out)]).toMatchObject([
    69,
    { done: [{ userId: ada }], refused: [{ id: bob, code: "audit_unavailable" }], untried: [eve] },
  ]);
  const refused = await gatehouse([...endAll, "--reason", "ask ada@example.com"]);
  expect([refused.code, refused.out]).toEqual([1, ""]);
  expect(refused.error).toContain("validation_failed");
});

test("the ids come from standard input too", async () => {
  const main = resolve(import.meta.dirname, "..", "..", "main.ts");
  const environment = {
    IDENTITY_SERVICE_ADDRESS: `127.0.0.1:${port}`,
    ...certificates.environmentOf("operator"),
  };
  const child = spawn(process.execPath, [main, "users", "disable", "--from", "-"], {
    env: { ...process.env, ...environment },
  });
  child.stdin.end(`${ada}\n`);
  const closed = once(child, "close");
  expect(await text(child.stdout)).toContain("Done for 1 of 1 users");
  expect(await closed).toEqual([0, null]);
  expect(await shown()).toMatchObject({ status: "disabled" });
});

test("users show prints all facts about a user", async () => {
  expect(await shown()).toEqual({
    id: ada,
    email: "ada@example.com",
    firstName: "Ada",
    lastName: "Lovelace",
    role: "USER",
    status: "active",
    emailVerified: true,
    mfaEnabled: false,
    mustChangePassword: false,
    createdAt: expect.stringMatching(/Z$/),
    firstLoginAt: null,
    lastLoginAt: null,
  });
  const { out } = await gatehouse(["users", "show", ada]);
  expect(out).toMatch(/^email +ada@example.com$/m);
  expect(out).toMatch(/^firstLoginAt +-$/m);
});

test("the last login is in the list, and among the facts", async () => {
  await database.ownerSql`update users set last_login_at = '2026-02-03T04:05:06.789Z' where id = ${ada}`;
  expect((await gatehouse(["users", "show", ada])).out).toMatch(/^lastLoginAt +2026-02-03T04:05:06.789Z$/m);
  expect((await gatehouse(["users", "list", "--query", "ada@"])).out).toContain("2026-02-03T04:05:06.789Z");
});

test("users show lists passkeys and clients, whose names cannot control the terminal; a passkey is removed by its id", async () => {
  const sql = database.ownerSql;
  const passkey = deps.newId();
  await sql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible,
      is_backed_up, name, created_at)
    values (${passkey}, ${ada}, ${Buffer.alloc(16)}, ${Buffer.alloc(1)}, 0, '{}', false, false,
      ${"Phone\u001b[31m\u202e"}, now())`;
  await sql`
    insert into clients (id, name, owner_id, permissions, status, created_at, changed_at)
    values (${deps.newId()}, ${"Shop\u001b[31m"}, ${ada}, '{payments:read}', 'active', now(), now())`;
  const { code, out } = await gatehouse(["users", "show", ada]);
  expect(code).toBe(0);
  expect(out).toMatch(/^PASSKEY +NAME +CREATED +LAST USED\n\S+ +Phone\ufffd\[31m\ufffd /m);
  expect(out).toMatch(/^CLIENT +NAME +STATUS\n\S+ +Shop\ufffd\[31m +active/m);
  const remove = (...options: string[]) => gatehouse(["users", "remove-passkey", ada, passkey, ...options]);
  expect(await remove()).toMatchObject({ code: 64, error: expect.stringMatching(/--yes/) });
  expect(await remove("--yes", "--reason", "ticket 4711")).toMatchObject({ code: 0 });
  expect((await gatehouse(["users", "show", ada])).out).not.toContain("PASSKEY");
  expect(await events()).toEqual(["passkey_removed ticket 4711"]);
  expect(await remove("--yes")).toMatchObject({ code: 1 });
  expect(out).not.toContain("\u001b");
});

test("each change takes effect and reports the ended sessions", async () => {
  deps.tokenService.revokeUserSessions.mockImplementation(async () => ["s1", "s2"]);
  for (const [argv, text, after] of [
    [["disable"], "is disabled; 2 sessions have ended", { status: "disabled" }],
    [["enable"], "is active", { status: "active" }],
    [["set-role", "AUDITOR"], "is AUDITOR; 2 sessions have ended", { role: "AUDITOR" }],
    [
      ["require-password-change"],
      "must change the password; 2 sessions have ended",
      { mustChangePassword: true },
    ],
    [["require-password-change", "--take-back"], "may keep the password", { mustChangePassword: false }],
    [
      ["set-name", "--first-name", "Zoe", "--no-last-name"],
      "has the new name",
      { firstName: "Zoe", lastName: "" },
    ],
    [["unlock"], "is unlocked", {}],
    [["end-sessions"], "is logged out everywhere; 2 sessions have ended", {}],
  ] as const) {
    const [verb, ...rest] = argv;
    const result = await gatehouse(["users", verb, ada, ...rest]);
    expect(result).toEqual({ code: 0, out: `${ada} ${text}\n`, error: "" });
    expect(await shown()).toMatchObject(after);
  }
  const json = await gatehouse(["users", "end-sessions", ada, "--json"]);
  expect(JSON.parse(json.out)).toEqual({ userId: ada, endedSessionIds: ["s1", "s2"] });
});

const events = async () => {
  const rows = await database.ownerSql<{ summary: string }[]>`
    select type || ' ' || reason as summary from security_events order by id`;
  return rows.map(({ summary }) => summary);
};

test("one session ends alone, and an empty id ends nothing", async () => {
  const session = deps.newId();
  const end = (id: string) => gatehouse(["users", "end-sessions", ada, "--session", id]);
  expect(await end("")).toMatchObject({ code: 64 });
  expect(await end("all")).toMatchObject({ code: 1 });
  expect(await end(session)).toMatchObject({ code: 0 });
  expect(await events()).toEqual([`session_ended ${session}`]);
});

test("--reason goes into the audit log with the change, and is refused where it could not be erased", async () => {
  for (const verb of ["disable", "enable", "require-password-change", "unlock", "end-sessions"]) {
    const refused = await gatehouse(["users", verb, ada, "--reason", "mail of ada@example.com", "--json"]);
    expect([refused.code, JSON.parse(refused.error).error.code]).toEqual([1, "validation_failed"]);
    expect((await gatehouse(["users", verb, ada, "--reason", "ticket 4711"])).code).toBe(0);
  }
  await gatehouse(["users", "set-name", ada, "--first-name", "Zoe", "--reason", "ticket 4711"]);
  await gatehouse(["users", "set-role", ada, "AUDITOR", "--reason", "ticket 4711"]);
  await gatehouse(["users", "delete", ada, "--yes", "--reason", "ticket 4711"]);
  expect(await events()).toEqual([
    "status_changed disabled: ticket 4711",
    "status_changed active: ticket 4711",
    "password_change_required ticket 4711",
    "unlocked ticket 4711",
    "sessions_ended ticket 4711",
    "profile_updated ticket 4711",
    "role_changed USER to AUDITOR: ticket 4711",
    "account_deleted ticket 4711",
  ]);
});

test("changes that cannot be undone need --yes", async () => {
  await database.ownerSql`
    insert into totp_credentials values (${ada}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), now(), 0)`;
  for (const verb of ["reset-mfa", "delete"]) {
    expect(await gatehouse(["users", verb, ada])).toMatchObject({
      code: 64,
      error: expect.stringMatching(/--yes/),
    });
  }
  expect((await shown()).mfaEnabled).toBe(true);
  expect(await gatehouse(["users", "reset-mfa", ada, "--yes"])).toMatchObject({ code: 0 });
  expect((await shown()).mfaEnabled).toBe(false);
  expect(await gatehouse(["users", "delete", ada, "--yes"])).toMatchObject({ code: 0 });
  expect(await gatehouse(["users", "show", ada])).toMatchObject({ code: 1 });
});

test("the last administrator cannot be changed, and an unknown user is not found", async () => {
  const { out } = await gatehouse(["users", "list", "--role", "ADMIN", "--json"]);
  const [admin] = (JSON.parse(out) as { users: UserView[] }).users;
  for (const argv of [["disable"], ["set-role", "USER"], ["delete", "--yes"]]) {
    const [verb = "", ...rest] = argv;
    const { code, error } = await gatehouse(["users", verb, admin?.id ?? "", ...rest, "--json"]);
    expect([code, JSON.parse(error).error.code]).toEqual([1, "last_admin"]);
  }
  for (const verb of ["show", "disable", "enable", "require-password-change", "unlock", "end-sessions"]) {
    const { code, error } = await gatehouse(["users", verb, deps.newId(), "--json"]);
    expect([code, JSON.parse(error).error.code]).toEqual([1, "not_found"]);
  }
});

test.each([
  ["users set-name x", "Give --first-name, --last-name or --no-last-name"],
  ["users set-name x --last-name B --no-last-name", "exclude each other"],
  ["users set-role x owner", "<role> must be a role such as USER"],
  ["users list --role owner", "--role must be a role such as USER"],
  ["users list --status locked", "--status must be one of active, disabled"],
  ["users list --limit 0", "--limit must be 1 to 100"],
  ["users list --limit 1e1", "--limit must be 1 to 100"],
  ["users show", "Missing: <id>"],
])("%s calls no service", async (line, problem) => {
  const { code, error } = await gatehouse(line.split(" "));
  expect({ code, error }).toEqual({ code: 64, error: expect.stringContaining(problem) });
});

test("only operators and the gateway may change users", async () => {
  const { code, error } = await gatehouse(["users", "disable", ada, "--json"], "token-service");
  expect([code, JSON.parse(error).error.code]).toEqual([1, "caller_not_allowed"]);
  expect(await shown()).toMatchObject({ status: "active" });
});

test("an auditor may neither read nor change users", async () => {
  for (const argv of [
    ["users", "list"],
    ["users", "show", ada],
    ["users", "disable", ada],
  ]) {
    const { error } = await gatehouse([...argv, "--json"], "auditor");
    expect(JSON.parse(error).error.code).toBe("caller_not_allowed");
  }
  expect(readings.noted).toEqual([]);
});

test("each read of an operator is recorded once with its filter; a searched address can be erased", async () => {
  await gatehouse(["users", "list", "--role", "USER", "--limit", "2"]);
  await gatehouse(["users", "list", "--query", "ada@example.com"]);
  await gatehouse(["users", "list", "--query", "lovel"]);
  await gatehouse(["users", "show", ada]);
  const actor = { userId: "operator:tester", role: "OPERATOR" };
  expect(readings.noted).toMatchObject([
    { action: "user.listed", actor, reason: "role=USER limit=2" },
    { action: "user.listed", actor: { ...actor, claimedEmail: "ada@example.com" } },
    { action: "user.listed", actor, reason: expect.stringContaining("queryCharacters=5") },
    { action: "user.read", actor, resource: ada },
    { action: "client.listed", actor, reason: expect.stringContaining(`owner=${ada}`) },
  ]);
  expect(JSON.stringify(readings.noted.map(({ reason }) => reason))).not.toMatch(/ada@|lovel/);
});

test("a read that cannot be recorded is refused", async () => {
  await server.close(0);
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  const away = async () => Promise.reject(new DomainError("audit_unavailable"));
  server.add(UserAdminServiceService, USER_ADMIN_CALLERS, createUserAdminRpc(deps, away));
  port = await server.listen();
  const { code, out, error } = await gatehouse(["users", "show", ada, "--json"]);
  expect([code, out, JSON.parse(error).error.code]).toEqual([69, "", "audit_unavailable"]);
});

test("changes are in the audit log with the operator's name", async () => {
  await gatehouse(["users", "disable", ada]);
  const [event] = await database.sql`
    select type, person, actor_id, user_id from security_events where type = 'status_changed'`;
  expect(event).toEqual({ type: "status_changed", person: "operator:tester", actor_id: null, user_id: ada });
});

test("the error for a lost answer says how to check the result", async () => {
  await database.ownerSql`alter table users rename to gone`;
  try {
    const { code, error } = await gatehouse(["users", "disable", ada]);
    expect({ code, error }).toEqual({ code: 1, error: expect.stringContaining("gatehouse users show") });
  } finally {
    await database.ownerSql`alter table gone rename to users`;
  }
});
