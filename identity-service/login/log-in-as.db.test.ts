import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { COMMANDS } from "#cli/commands/commands.ts";
import { run } from "#cli/run.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { TestLoginServiceService } from "#proto/gatehouse/identity/v1/test_login_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { createTestLoginRpc, TEST_LOGIN_CALLERS } from "../test-login-rpc.ts";
import { testDeps } from "../testing/test-deps.ts";

let certificates: TestCertificates;
let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let server: RpcServer;
let port: number;
let ada: string;

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("identity-service");
});
afterAll(async () => {
  await certificates.remove();
  await database.drop();
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "security_events", "mail_outbox");
  deps = await testDeps(database.sql);
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  server.add(TestLoginServiceService, TEST_LOGIN_CALLERS, createTestLoginRpc(deps));
  port = await server.listen();
  ada = deps.newId();
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    values (${ada}, 'ada@example.com', 'Ada', 'Lovelace', 'USER', 'active', true, now(), now())`;
});
afterEach(() => server.close(0));

async function issue(args: string[], caller: Parameters<TestCertificates["of"]>[0] = "operator") {
  let [out, error] = ["", ""];
  const code = await run(["sessions", "issue", ...args], COMMANDS, {
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

const issued = () => deps.tokenService.issueSession.mock.calls.map(([session]) => session);
const events = () =>
  database.ownerSql`select type, person, user_id as "userId", user_agent as "userAgent" from security_events`;

test("a session is that of a login at the wanted level, by id or address, and the log names who asked", async () => {
  expect((await issue([ada])).out).toBe("access\n");
  const { out } = await issue(["ADA@example.com", "--level", "3", "--json"]);
  expect(JSON.parse(out)).toMatchObject({ accessToken: "access", refreshToken: "refresh", userId: ada });
  expect(issued()).toMatchObject([
    { userId: ada, role: "USER", acr: 1, amr: ["pwd"] },
    { userId: ada, role: "USER", acr: 3, amr: ["hwk", "user", "mfa"] },
  ]);
  const event = { type: "test_login_asked", userId: ada, userAgent: "gatehouse sessions issue" };
  expect(await events()).toMatchObject([
    { ...event, person: expect.stringMatching(/^operator:/) },
    { ...event, person: expect.stringMatching(/^operator:/) },
  ]);
});

test("where the user has a second factor, level 2 is the least", async () => {
  await database.ownerSql`
    insert into passkeys
      (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible, is_backed_up, name, created_at)
    values (${deps.newId()}, ${ada}, ${Buffer.alloc(16)}, ${Buffer.from("key")}, 0, '{}', false, false, 'key', now())`;
  expect((await issue([ada])).code).toBe(0);
  expect(issued()).toMatchObject([{ acr: 2, amr: ["pwd", "otp", "mfa"] }]);
  expect((await issue([ada, "--level", "1"])).error).toContain("ask for level 2 or 3");
  expect(issued()).toHaveLength(1);
});

test.each([
  ["disabled", "status = 'disabled'", "is disabled"],
  ["to change the password", "must_change_password = true", "must change the password"],
  ["of a role that is not defined", "role = 'NOBODY'", "role"],
])("a user who is %s gets none", async (_what, change, problem) => {
  await database.ownerSql.unsafe(`update users set ${change}`);
  expect(await issue([ada])).toMatchObject({ code: 1, out: "", error: expect.stringContaining(problem) });
  expect(issued()).toEqual([]);
});

test("a user whose address must be verified, a locked one and an unknown one get none", async () => {
  deps.loginRequiresVerifiedEmail = true;
  await database.ownerSql`update users set email_verified = false`;
  expect((await issue([ada])).error).toContain("not verified");
  deps.loginRequiresVerifiedEmail = false;
  deps.throttle.lockedUntil = async () => Number.POSITIVE_INFINITY;
  expect((await issue([ada])).error).toContain("users unlock");
  expect((await issue([deps.newId()])).code).toBe(1);
  expect((await issue(["nobody@example.com"])).code).toBe(1);
  expect(issued()).toEqual([]);
});

test.each(["gateway", "token-service", "auditor"] as const)("%s may not ask", async (caller) => {
  expect(await issue([ada], caller)).toMatchObject({ code: 1, out: "" });
  expect([issued(), await events()]).toEqual([[], []]);
});

test("a service that does not serve it says which setting does", async () => {
  await server.close(0);
  server = new RpcServer({
    address: `127.0.0.1:${port}`,
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  await server.listen();
  expect(await issue([ada])).toMatchObject({ code: 1, error: expect.stringContaining("TEST_LOGINS") });
});
