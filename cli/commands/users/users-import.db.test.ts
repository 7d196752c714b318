import { spawn } from "node:child_process";
import { once } from "node:events";
import { link, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argon2id } from "@noble/hashes/argon2.js";
import { pbkdf2 } from "@noble/hashes/pbkdf2.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import bcryptjs from "bcryptjs";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import type { RecordReading } from "#audit-client/stream/record-reading.ts";
import { logIn } from "#identity-service/login/log-in.ts";
import { QUICK, testDeps } from "#identity-service/testing/test-deps.ts";
import { createUserImportRpc, USER_IMPORT_CALLERS } from "#identity-service/user-import-rpc.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { UserImportServiceService } from "#proto/gatehouse/identity/v1/user_import_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const PASSWORD = "Correct-Horse-42";
const SALT = Buffer.from("sixteen bytes!!!");
const BCRYPT = bcryptjs.hashSync(PASSWORD, 4);
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");

let certificates: TestCertificates;
let database: TestDatabase;
let folder: string;
let deps: Awaited<ReturnType<typeof testDeps>>;
let readings: ReturnType<typeof noteReadings>;
let recordReading: RecordReading;
let server: RpcServer;
let port: number;

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("identity-service");
});
afterAll(async () => {
  await certificates.remove();
  await database.drop();
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "imports", "security_events");
  folder = await mkdtemp(join(tmpdir(), "gatehouse-import-"));
  deps = {
    ...(await testDeps(database.sql, { ...QUICK, memoryKib: 8_192 })),
    relyingParties: new Map([["google", { issuer: "https://accounts.google.com" } as never]]),
  };
  readings = noteReadings();
  recordReading = readings.recordReading;
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  server.add(
    UserImportServiceService,
    USER_IMPORT_CALLERS,
    createUserImportRpc(deps, (context, reading) => recordReading(context, reading)),
  );
  port = await server.listen();
});
afterEach(async () => {
  await server.close(0);
  await rm(folder, { recursive: true });
});

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

async function importOf(name: string, content: string | Buffer, ...options: string[]) {
  const path = join(folder, name);
  const output = join(folder, `${name}.report`);
  await writeFile(path, content);
  const argv = ["users", "import", path, "--output", output, "--force", ...options];
  const result = await gatehouse([...argv, "--json"]);
  const lines = result.error === "" ? (await readFile(output, "utf8")).trim().split("\n") : [];
  const report = lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  return { ...result, summary: result.out === "" ? undefined : JSON.parse(result.out), report };
}

const ndjson = (...users: object[]) => users.map((user) => `${JSON.stringify(user)}\n`).join("");

function keycloak(...users: object[]): string {
  const realm = { id: "1", realm: "shop", roles: { realm: [{ name: "admin" }] }, users, groups: [] };
  return JSON.stringify(realm, undefined, 2);
}

function password(algorithm: string, hashIterations: number, value: Uint8Array, additionalParameters = {}) {
  return {
    type: "password",
    secretData: JSON.stringify({ value: base64(value), salt: base64(SALT), additionalParameters: {} }),
    credentialData: JSON.stringify({ hashIterations, algorithm, additionalParameters }),
  };
}

const PBKDF2_256 = password("pbkdf2-sha256", 1_000, pbkdf2(sha256, PASSWORD, SALT, { c: 1_000, dkLen: 64 }));
const PBKDF2_512 = password("pbkdf2-sha512", 500, pbkdf2(sha512, PASSWORD, SALT, { c: 500, dkLen: 64 }));
const ARGON2 = password("argon2", 2, argon2id(PASSWORD, SALT, { m: 1_024, t: 2, p: 1, dkLen: 32 }), {
  hashLength: ["32"],
  memory: ["1024"],
  type: ["id"],
  version: ["1.3"],
  parallelism: ["1"],
});
const OTP = {
  type: "otp",
  secretData: JSON.stringify({ value: "Zm9vYmFyYmF6cXV4MTIz" }),
  credentialData: JSON.stringify({
    subType: "totp",
    digits: 6,
    counter: 0,
    period: 30,
    algorithm: "HmacSHA1",
  }),
};

const logInAs = (email: string) =>
  logIn(
    deps,
    { email, password: PASSWORD, clientIp: "192.0.2.1", userAgent: "test", deviceToken: "" },
    newCallContext({ budgetMs: 60_000 }),
  );
const hashOf = async (email: string) =>
  (await database.ownerSql`select password_hash as hash from users where email = ${email}`)[0]
    ?.hash as string;

test("users of a Keycloak realm log in with their passwords, whose hashes are ours afterwards", async () => {
  const users = [
    { id: "k1", email: "Ada@Example.com", emailVerified: true, enabled: true, credentials: [PBKDF2_256] },
    { id: "k2", email: "ben@example.com", emailVerified: true, enabled: true, credentials: [PBKDF2_512] },
    { id: "k3", email: "eve@example.com", emailVerified: true, enabled: true, credentials: [ARGON2] },
  ];
  const { code, summary, report } = await importOf("realm.json", keycloak(...users), "--from", "keycloak");
  expect([code, summary.imported, summary.refused]).toEqual([0, 3, 0]);
  const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/);
  expect(report).toEqual([
    { at: 1, id: "k1", userId: uuid },
    { at: 2, id: "k2", userId: uuid },
    { at: 3, id: "k3", userId: uuid },
  ]);
  for (const [index, email] of ["ada@example.com", "ben@example.com", "eve@example.com"].entries()) {
    const foreign = await hashOf(email);
    expect(foreign).not.toContain("m=8192");
    expect(await logInAs(email)).toMatchObject({ kind: "completed", user: { id: report[index].userId } });
    expect(await hashOf(email)).toMatch(/^\$argon2id\$v=19\$m=8192,t=1,p=1\$/);
    expect(await logInAs(email)).toMatchObject({ kind: "completed" });
  }
});

const email = "suharto@example.com";
test.each<[string, object, [string, string]]>([
  ["keycloak", { email, firstName: "Suharto", lastName: "" }, ["Suharto", ""]],
  ["keycloak", { email, firstName: "Suharto", lastName: null }, ["Suharto", ""]],
  ["keycloak", { email, firstName: "Suharto" }, ["Suharto", ""]],
  ["keycloak", { email, lastName: "Suharto" }, ["Suharto", ""]],
  ["keycloak", { email }, ["suharto", ""]],
  ["auth0", { email, given_name: "Suharto", name: "Suharto" }, ["Suharto", ""]],
  ["auth0", { email, name: "Suharto" }, ["Suharto", ""]],
  ["auth0", { email, family_name: "Suharto", name: "Suharto" }, ["Suharto", ""]],
  ["auth0", { email, given_name: "Ada", name: "Ada Lovelace" }, ["Ada", "Lovelace"]],
  ["supabase", { email, raw_user_meta_data: { full_name: "Suharto" } }, ["Suharto", ""]],
  ["ndjson", { email, name: "Suharto" }, ["Suharto", ""]],
  ["ndjson", { email, firstName: "Suharto", lastName: " " }, ["Suharto", ""]],
])("a person with one name is imported with one: %s, %j", async (from, user, [first_name, last_name]) => {
  const text = from === "keycloak" ? keycloak({ id: "k1", ...user }) : ndjson({ ...user });
  const { summary } = await importOf("one-name", text, "--from", from);
  expect(summary).toMatchObject({ imported: 1 });
  expect(await database.ownerSql`select first_name, last_name from users`).toEqual([
    { first_name, last_name },
  ]);
});

test("roles, second factors, identities, and what else Keycloak knows of a user", async () => {
  const users = [
    {
      id: "k1",
      email: "ada@example.com",
      emailVerified: true,
      firstName: "Ada",
      lastName: "Lovelace",
      enabled: false,
      credentials: [
        PBKDF2_256,
        OTP,
        { type: "webauthn-passwordless", secretData: "{}", credentialData: "{}" },
      ],
      requiredActions: ["UPDATE_PASSWORD"],
      federatedIdentities: [
        { identityProvider: "google-idp", userId: "4711", userName: "ada" },
        { identityProvider: "facebook", userId: "1", userName: "ada" },
      ],
      realmRoles: ["default-roles-shop", "auditor", "clerk"],
    },
    { id: "k2", email: "ben@example.com", credentials: [], realmRoles: ["clerk"] },
  ];
  const options = ["--from", "keycloak", "--role", "auditor=AUDITOR", "--provider", "google-idp=google"];
  const { summary, report } = await importOf("realm.json", keycloak(...users), ...options);
  expect(summary).toMatchObject({
    imported: 2,
    leftOut: { "credential webauthn-passwordless": 1, "role clerk": 2, "provider facebook": 1 },
  });
  const rows = await database.ownerSql`
    select email, email_verified, first_name, last_name, role, status, must_change_password, password_hash is null as "hasNone",
      credentials_proven_email from users order by email`;
  expect(rows).toEqual([
    {
      email: "ada@example.com",
      email_verified: true,
      first_name: "Ada",
      last_name: "Lovelace",
      role: "AUDITOR",
      status: "disabled",
      must_change_password: true,
      hasNone: false,
      credentials_proven_email: "ada@example.com",
    },
    {
      email: "ben@example.com",
      email_verified: false,
      first_name: "ben",
      last_name: "",
      role: "USER",
      status: "active",
      must_change_password: false,
      hasNone: true,
      credentials_proven_email: null,
    },
  ]);
  const identities =
    await database.ownerSql`select issuer, subject, provider, user_id from external_identities`;
  expect(identities).toEqual([
    { issuer: "https://accounts.google.com", subject: "4711", provider: "google", user_id: report[0].userId },
  ]);
  const [credential] = await database.ownerSql`select * from totp_credentials`;
  expect(credential?.confirmed_at).not.toBeNull();
  expect(credential?.secret_encrypted.includes("Zm9v")).toBe(false);
});

test("each row that is refused is named with its place and reason, without its secrets", async () => {
  await importOf("first.ndjson", ndjson({ email: "taken@example.com" }), "--from", "ndjson");
  const bad = [
    { id: "1", email: "TAKEN@example.com", passwordHash: BCRYPT },
    { id: "2", email: "not an address" },
    { id: "3", email: "c@example.com", passwordHash: BCRYPT.replace("$04$", "$14$") },
    { id: "4", email: "d@example.com", passwordHash: "5f4dcc3b5aa765d61d8327deb882cf99" },
    { id: "5", email: "e@example.com", role: "OWNER" },
    { id: "6", email: "f@example.com", identities: [{ provider: "github", subject: "1" }] },
    { id: "7", email: "g@example.com", totpSecret: "JBSWY3DPEHPK3PXP" },
    { id: "8", email: "h@example.com", emailverified: true },
    {
      id: "9",
      email: "i@example.com",
      passwordHash: "$scrypt$ln=16,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAA",
    },
    { id: "10", email: "good@example.com", identities: [{ provider: "google", subject: "1" }] },
    { id: "11", email: "Good@example.com" },
    { id: "12", email: "k@example.com", identities: [{ provider: "google", subject: "1" }] },
  ];
  const content = `${ndjson(...bad)}{"broken": \n`;
  const { code, summary, report, out } = await importOf("bad.ndjson", content, "--from", "ndjson");
  expect([code, summary.imported, summary.refused]).toEqual([1, 1, 12]);
  expect(report.map(({ at, id, refused, field }) => [at, id, refused, field])).toEqual([
    [1, "1", "address_taken", undefined],
    [2, "2", "email_invalid", undefined],
    [3, "3", "bcrypt_cost_too_high", undefined],
    [4, "4", "hash_format_unknown", undefined],
    [5, "5", "role_not_defined", undefined],
    [6, "6", "provider_unknown", undefined],
    [7, "7", "totp_unsupported", undefined],
    [8, "", "row_invalid", "emailverified"],
    [9, "9", "hash_memory_too_high", undefined],
    [10, "10", undefined, undefined],
    [11, "11", "address_repeated", undefined],
    [12, "12", "identity_repeated", undefined],
    [13, "", "row_unreadable", undefined],
  ]);
  const printed = JSON.stringify([report, out, deps.logLines, readings.noted]);
  for (const secret of [BCRYPT.slice(10), "5f4dcc3b", "JBSWY3DP", "c2FsdHNhbHQ"])
    expect(printed).not.toContain(secret);
});

test("--check stores nothing and says what the import then does", async () => {
  const users = [{ email: "ada@example.com", passwordHash: BCRYPT }, { email: "x" }];
  const checked = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson", "--check");
  expect(checked.code).toBe(1);
  expect(checked.summary).toMatchObject({ imported: 1, refused: 1, refusals: { email_invalid: 1 } });
  expect(checked.report).toEqual([
    { at: 1, id: "" },
    { at: 2, id: "", refused: "email_invalid" },
  ]);
  const counts = await database.ownerSql`
    select (select count(*)::int from users) as users, (select count(*)::int from imports) as imports,
      (select count(*)::int from security_events) as events`;
  expect(counts[0]).toEqual({ users: 0, imports: 0, events: 0 });
  expect(readings.noted).toMatchObject([{ action: "user.import_checked", reason: "rows=2" }]);
  const done = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson");
  expect(done.summary).toMatchObject({ imported: 1, refused: 1, refusals: { email_invalid: 1 } });
});

test("an identity that stands in the file twice is refused by --check too, however far it is away", async () => {
  const users = Array.from({ length: 102 }, (_, index) => ({
    email: `u${index}@example.com`,
    identities: [{ provider: "google", subject: index === 101 ? "1" : `${index}` }],
  }));
  const argv = ["users.ndjson", ndjson(...users), "--from", "ndjson"] as const;
  const checked = await importOf(...argv, "--check");
  const done = await importOf(...argv);
  for (const { code, summary, report } of [checked, done]) {
    expect([code, summary.imported]).toEqual([1, 101]);
    expect(report.at(-1)).toEqual({ at: 102, id: "", refused: "identity_repeated" });
  }
});

test("roles that a file gives are counted, before and after: it may be another's", async () => {
  const users = ["AUDITOR", "USER", "", "OWNER"].map((role, index) => ({
    email: `u${index}@example.com`,
    role,
  }));
  for (const options of [["--check"], []]) {
    const { summary } = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson", ...options);
    expect(summary).toMatchObject({ imported: 3, refused: 1, roles: { AUDITOR: 1, USER: 1 } });
  }
  const path = join(folder, "users.ndjson");
  const argv = ["users", "import", path, "--from", "ndjson", "--output", join(folder, "again")];
  expect((await gatehouse(argv)).out).toContain("\nRoles: AUDITOR 1, USER 1\n");
});

test("--check names addresses that no mail can be sent to, if the mail server is said not to take them", async () => {
  const users = ["jürgen@example.com", "anna@bücher.example", "ü@x"].map((email) => ({ email }));
  const check = () => importOf("users.ndjson", ndjson(...users), "--from", "ndjson", "--check");
  expect((await check()).summary.warnings).toEqual({});
  deps.smtpUtf8 = false;
  const { report, summary } = await check();
  expect(summary).toMatchObject({ imported: 2, refused: 1, warnings: { email_needs_smtputf8: 1 } });
  expect(report).toEqual([
    { at: 1, id: "", warning: "email_needs_smtputf8" },
    { at: 2, id: "" },
    { at: 3, id: "", refused: "email_invalid" },
  ]);
});

test("the same command again imports nothing twice and writes the same report", async () => {
  const users = Array.from({ length: 250 }, (_, index) => ({
    id: `u${index}`,
    email: `u${index}@example.com`,
  }));
  const first = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson");
  const second = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson");
  expect(second).toEqual(first);
  expect(first.report).toHaveLength(250);
  expect(await database.ownerSql`select count(*)::int from users`).toEqual([{ count: 250 }]);
  expect(
    await database.ownerSql`select type from security_events where type <> 'imported' order by id`,
  ).toEqual([{ type: "import_started" }, { type: "import_completed" }]);
});

test("the audit log has who imported what, and that a verified address is the operator's claim", async () => {
  const users = [
    { email: "ada@example.com", emailVerified: true, role: "ADMIN" },
    { email: "ben@example.com" },
  ];
  const { summary, report } = await importOf("users.ndjson", ndjson(...users), "--from", "ndjson");
  const { importId } = summary;
  const events = await database.ownerSql`
    select type, user_id, person, reason from security_events order by id`;
  const file = /from ndjson, file sha256 [0-9a-f]{64}$/;
  const person = "operator:tester";
  const by = `import ${importId} row`;
  expect(events).toEqual([
    { type: "import_started", user_id: importId, person, reason: expect.stringMatching(file) },
    {
      type: "imported",
      user_id: report[0].userId,
      person,
      reason: `${by} 1: address verified by the operator's claim, ADMIN`,
    },
    { type: "imported", user_id: report[1].userId, person, reason: `${by} 2: address not verified` },
    {
      type: "import_completed",
      user_id: importId,
      person,
      reason: expect.stringMatching(/^2 imported, 0 refused, /),
    },
  ]);
});

test("a failure after the last row names the call, and the same command again ends the import", async () => {
  const asked: string[] = [];
  recordReading = async ({ requestId }) => {
    asked.push(requestId);
    throw new Error("a defect");
  };
  const rows = ndjson({ email: "ada@example.com" }, { email: "ben@example.com" });
  const { code, error } = await importOf("users.ndjson", rows, "--from", "ndjson");
  const failure = JSON.parse(error).error;
  expect([code, failure.code]).toEqual([1, "internal_error"]);
  expect(failure.message).toContain("Run the same command again");
  expect([...new Set(asked)]).toEqual([failure.requestId]);
  expect(await database.ownerSql`select imported, completed_at is null as open from imports`).toEqual([
    { imported: 2, open: false },
  ]);
  recordReading = readings.recordReading;
  expect(await importOf("users.ndjson", rows, "--from", "ndjson")).toMatchObject({
    code: 0,
    summary: { imported: 2, refused: 0 },
  });
});

test("a row that no call can have is refused, wherever it stands, and stops nothing", async () => {
  const long = { firstName: "x".repeat(70_000) };
  const between = Array.from({ length: 3 }, (_, index) => ({ email: `u${index}@example.com` }));
  const rows = ndjson({ email: "first@example.com", ...long }, ...between, {
    email: "last@example.com",
    ...long,
  });
  for (const options of [["--check"], []]) {
    const { code, summary, report } = await importOf("long.ndjson", rows, "--from", "ndjson", ...options);
    expect([code, summary]).toMatchObject([1, { imported: 3, refused: 2, refusals: { row_too_long: 2 } }]);
    expect(report.map(({ refused }) => refused)).toEqual([
      "row_too_long",
      undefined,
      undefined,
      undefined,
      "row_too_long",
    ]);
  }
});

test.each([
  ["checkRows", ["--check"]],
  ["listImportedRows", []],
] as const)("a row of which %s says nothing counts as nothing", async (method, options) => {
  await server.close(0);
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  const complete = createUserImportRpc(deps, recordReading);
  const empty = {
    checkRows: async () => ({ refusals: [], warnings: [] }),
    listImportedRows: async () => ({ firstRow: 1, rows: [] }),
  };
  const silent = { ...complete, [method]: empty[method] } as typeof complete;
  server.add(UserImportServiceService, USER_IMPORT_CALLERS, silent);
  port = await server.listen();
  const result = await importOf(
    "a.ndjson",
    ndjson({ email: "ada@example.com" }),
    "--from",
    "ndjson",
    ...options,
  );
  expect(result).toMatchObject({
    code: 1,
    out: "",
    error: expect.stringContaining("does not say what became"),
  });
});

test("Ctrl-C ends an import that waits, and leaves no part of a report", async () => {
  let asked: () => void = () => undefined;
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  recordReading = async () => {
    asked();
    throw new DomainError("audit_unavailable");
  };
  const path = join(folder, "users.ndjson");
  await writeFile(path, ndjson({ email: "ada@example.com" }));
  const main = join(import.meta.dirname, "..", "..", "main.ts");
  const argv = [main, "users", "import", path, "--from", "ndjson", "--output", `${path}.report`, "--check"];
  const child = spawn(process.execPath, argv, {
    env: { IDENTITY_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf("operator") },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (data) => (said += data));
  const ended = once(child, "close");
  await isAsked;
  child.kill("SIGINT");
  expect(await ended).toEqual([1, null]);
  expect(said).toContain("Interrupted");
  expect(await readdir(folder)).toEqual(["users.ndjson"]);
});

test("a user of Auth0's database whose hash the other file does not have is counted, before and after", async () => {
  const passwords = join(folder, "passwords.ndjson");
  await writeFile(passwords, ndjson({ _id: { $oid: "1" }, passwordHash: BCRYPT }));
  const users = ["auth0|1", "auth0|2", "google-oauth2|3"].map((user_id, index) => ({
    user_id,
    email: `u${index}@example.com`,
  }));
  for (const options of [["--check"], []]) {
    const argv = ["--from", "auth0", "--passwords", passwords, ...options];
    const { summary } = await importOf("users.ndjson", ndjson(...users), ...argv);
    expect(summary).toMatchObject({ imported: 3, leftOut: { "password without a hash": 1 } });
  }
});

test("only operators may import", async () => {
  await writeFile(join(folder, "users.ndjson"), ndjson({ email: "ada@example.com" }));
  for (const caller of ["gateway", "auditor", "token-service"] as const) {
    for (const option of [["--check"], []]) {
      const argv = ["users", "import", join(folder, "users.ndjson"), "--from", "ndjson"];
      const output = join(folder, `${caller}${option}.report`);
      const { error } = await gatehouse([...argv, "--output", output, "--json", ...option], caller);
      expect(JSON.parse(error).error.code).toBe("caller_not_allowed");
    }
  }
  expect(await database.ownerSql`select from users`).toEqual([]);
});

test.each([
  ["keycloak", "realm.json", '{"users": [{"email": "ada@example.com"'],
  ["keycloak", "realm.json", "no json"],
  ["supabase", "users.csv", 'id,email\n1,"ada'],
  ["ndjson", "users.ndjson", `[{"email": "secret@example.com" "x"]`],
])("a file that is not one of %s is refused without a part of it: %s", async (from, name, content) => {
  const { code, error } = await importOf(name, content, "--from", from, "--check");
  expect([code, JSON.parse(error).error.code]).toEqual([66, "user_file_invalid"]);
  expect(error).not.toContain("secret");
});

test("a file without users ends with 66, and no import begins", async () => {
  const partial = JSON.stringify({ realm: "shop", roles: {} });
  const { code, error } = await importOf("realm.json", partial, "--from", "keycloak");
  expect([code, JSON.parse(error).error.message]).toEqual([66, expect.stringContaining("has no users")]);
  expect(await database.ownerSql`select from imports`).toHaveLength(0);
});

const WHOLE = JSON.stringify({ email: "ada@example.com", firstName: "José" });
test.each<[string, string, string, string | Buffer, string]>([
  ["an array that ends in the middle", "ndjson", "users.json", `[${WHOLE},{"email":"b`, "not valid JSON"],
  ["a realm that ends in the middle", "keycloak", "realm.json", `{"users":[${WHOLE},`, "not valid JSON"],
  ["CSV that ends in the middle", "supabase", "users.csv", 'id,email\n1,ada@example.com\n2,"b', "CSV_"],
  ["an endless line", "ndjson", "u.ndjson", `${WHOLE}\n${"x".repeat(2 ** 21)}`, "has a line that is longer"],
  ["lines of Latin-1", "ndjson", "u.ndjson", Buffer.from(`{}\n${WHOLE}`, "latin1"), "UTF-8"],
  ["an array of Latin-1", "ndjson", "users.json", Buffer.from(`[${WHOLE}]`, "latin1"), "UTF-8"],
  [
    "an array that ends in a character",
    "ndjson",
    "u.json",
    Buffer.from(`[${WHOLE}] é`).subarray(0, -1),
    "UTF-8",
  ],
  ["CSV of Latin-1", "supabase", "u.csv", Buffer.from("id,email\n1,a@b.example\n2,é", "latin1"), "UTF-8"],
])("of %s no user is imported, and no import begins", async (_what, from, name, content, problem) => {
  const { code, error } = await importOf(name, content, "--from", from);
  expect([code, JSON.parse(error).error.message]).toEqual([66, expect.stringContaining(problem)]);
  expect(await database.ownerSql`select from users`).toHaveLength(0);
  expect(await database.ownerSql`select from imports`).toHaveLength(0);
});

test("of realms with users the one of --realm is imported", async () => {
  const realms = ["a", "b"].map((name) => ({ realm: name, users: [{ email: `${name}@example.com` }] }));
  const { summary } = await importOf(
    "all.json",
    JSON.stringify(realms),
    "--from",
    "keycloak",
    "--realm",
    "b",
  );
  expect(summary.imported).toBe(1);
  expect((await database.ownerSql`select email from users`).map(({ email }) => email)).toEqual([
    "b@example.com",
  ]);
});

test.each([
  ["--from okta", "--from must be one of keycloak, auth0, supabase, ndjson"],
  ["--from ndjson --role a=B", "--role for keycloak"],
  ["--from keycloak --role ADMIN", "--role must be two names"],
  ["--from supabase --passwords x", "--passwords is for auth0"],
  ["--from ndjson --realm shop", "--passwords is for auth0"],
  ["--from keycloak --role admin=AUDITOR --role admin=ADMIN", "--role names admin twice"],
  ["--from auth0 --provider a=google --provider a=github", "--provider names a twice"],
])("%s calls no service", async (options, problem) => {
  const { code, error } = await gatehouse(["users", "import", "f", "--output", "o", ...options.split(" ")]);
  expect({ code, error }).toEqual({ code: 64, error: expect.stringContaining(problem) });
});

test.each(["users", "passwords"])(
  "the report does not replace the file of the %s, also by a link",
  async (which) => {
    const files = { users: join(folder, "own.ndjson"), passwords: join(folder, "own.passwords") };
    for (const path of Object.values(files)) await writeFile(path, which);
    const output = join(folder, `link to ${which}`);
    await link(files[which as keyof typeof files], output);
    const argv = ["users", "import", files.users, "--from", "auth0", "--passwords", files.passwords];
    const { code, error } = await gatehouse([...argv, "--output", output, "--force"]);
    expect({ code, error }).toEqual({
      code: 64,
      error: expect.stringContaining("--output is a file that is imported"),
    });
    expect(await readFile(output, "utf8")).toBe(which);
  },
);
