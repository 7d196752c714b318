import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import { bootstrapAdmin } from "./bootstrap-admin.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterEach(() => emptyTables(database.ownerSql, "users", "counted_mails"));
afterAll(() => database.drop());

const PASSWORD = "first password of all";
const ADMIN = { email: "admin@example.com", password: new Secret(PASSWORD) };
const FROM = { clientIp: "", userAgent: "" };

const users = () =>
  database.ownerSql<Record<string, unknown>[]>`select email, role, email_verified from users`;
const problems = (lines: string[]) => lines.filter((line) => JSON.parse(line).level === "error");

test("the first administrator is made, proven, and can log in", async () => {
  const deps = await testDeps(database.sql);
  await bootstrapAdmin(deps, ADMIN);
  expect(await users()).toEqual([{ email: "admin@example.com", role: "ADMIN", email_verified: true }]);
  const attempt = { email: ADMIN.email, password: PASSWORD, ...FROM, deviceToken: "" };
  expect(await logInWith(deps, attempt, newCallContext({ budgetMs: 60_000 }))).toMatchObject({
    user: { role: "ADMIN" },
  });
});

test("ten replicas start at once: one administrator, and no error is logged", async () => {
  const replicas = await Promise.all(Array.from({ length: 10 }, () => testDeps(database.sql)));
  await Promise.all(replicas.map((deps) => bootstrapAdmin(deps, ADMIN)));
  expect(await users()).toHaveLength(1);
  expect(replicas.flatMap((deps) => problems(deps.logLines))).toEqual([]);
});

test("ten replicas with ten addresses: still one administrator", async () => {
  const replicas = await Promise.all(Array.from({ length: 10 }, () => testDeps(database.sql)));
  await Promise.all(
    replicas.map((deps, index) => bootstrapAdmin(deps, { ...ADMIN, email: `admin${index}@example.com` })),
  );
  expect(await users()).toHaveLength(1);
});

test("a later start makes no second one and hashes nothing, whatever the configuration says by then", async () => {
  await bootstrapAdmin(await testDeps(database.sql), ADMIN);
  const deps = await testDeps(database.sql);
  await bootstrapAdmin(deps, { email: "other@example.com", password: new Secret("short") });
  expect(await users()).toMatchObject([{ email: "admin@example.com" }]);
  expect(deps.argon2.hash).not.toHaveBeenCalled();
  expect(deps.logLines).toEqual([]);
});

test("an account that has the address is not promoted, and the log says what to do", async () => {
  const deps = await testDeps(database.sql);
  await register(
    deps,
    { email: ADMIN.email, password: "Password123!", firstName: "E", lastName: "V" },
    soon(),
  );
  await bootstrapAdmin(deps, ADMIN);
  expect(await users()).toMatchObject([{ role: "USER" }]);
  expect(problems(deps.logLines)).toEqual([expect.stringContaining("BOOTSTRAP_ADMIN_EMAIL")]);
});

test("a weak password makes no administrator, and the log says what to do", async () => {
  const deps = await testDeps(database.sql);
  await bootstrapAdmin(deps, { ...ADMIN, password: new Secret("password1") });
  expect(await users()).toEqual([]);
  expect(problems(deps.logLines)).toEqual([expect.stringContaining("BOOTSTRAP_ADMIN_PASSWORD_FILE")]);
  expect(deps.logLines.join()).not.toContain("password1");
});

test("a breached password makes no administrator", async () => {
  const deps = await testDeps(database.sql);
  const passwordPolicy = { ...deps.passwordPolicy, breaches: [{ isBreached: async () => true }] };
  await bootstrapAdmin({ ...deps, passwordPolicy }, ADMIN);
  expect(await users()).toEqual([]);
  expect(problems(deps.logLines)).toEqual([expect.stringContaining("BOOTSTRAP_ADMIN_PASSWORD_FILE")]);
});
