import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { argon2id } from "@noble/hashes/argon2.js";
import { pbkdf2 } from "@noble/hashes/pbkdf2.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { generateSync, ScureBase32Plugin } from "otplib";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const CLI = resolve(import.meta.dirname, "../../../cli/main.ts");
const PASSWORD = "Correct-Horse-42";
const SALT = Buffer.from("sixteen bytes!!!");
const TOTP_KEY = Buffer.from("Zm9vYmFyYmF6cXV4MTIz");

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

const at = (name: string) => join(system.home, name);
const environment = () => ({ PATH: process.env.PATH ?? "", GATEHOUSE_HOME: system.home });

function importUsers(file: string, ...options: string[]) {
  const argv = [CLI, "users", "import", at(file), "--output", at(`${file}.report`), "--force", ...options];
  return new Promise<{ code: number; out: string; error: string }>((done) => {
    execFile(process.execPath, argv, { env: environment() }, (failure, out, error) =>
      done({ code: failure === null ? 0 : Number(failure.code), out, error }),
    );
  });
}

async function reportOf(
  file: string,
): Promise<{ at: number; id: string; userId?: string; refused?: string }[]> {
  const lines = (await readFile(at(`${file}.report`), "utf8")).trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}

function credential(type: string, secret: object, data: object) {
  return { type, secretData: JSON.stringify(secret), credentialData: JSON.stringify(data) };
}

function password(algorithm: string, hashIterations: number, value: Uint8Array, additionalParameters = {}) {
  const secret = { value: Buffer.from(value).toString("base64"), salt: SALT.toString("base64") };
  return credential("password", secret, { hashIterations, algorithm, additionalParameters });
}

const logIn = (email: string, typed = PASSWORD) => api.post("/auth/login", { email, password: typed });

test("users of a Keycloak export log in over HTTP as before, with their second factor, and their hashes are ours then", async () => {
  const pbkdf2Password = password(
    "pbkdf2-sha512",
    2_000,
    pbkdf2(sha512, PASSWORD, SALT, { c: 2_000, dkLen: 64 }),
  );
  const argon2Password = password(
    "argon2",
    2,
    argon2id(PASSWORD, SALT, { m: 1_024, t: 2, p: 1, dkLen: 32 }),
    {
      memory: ["1024"],
      type: ["id"],
      version: ["1.3"],
      parallelism: ["1"],
    },
  );
  const otp = credential(
    "otp",
    { value: TOTP_KEY.toString() },
    { subType: "totp", digits: 6, counter: 0, period: 30, algorithm: "HmacSHA1" },
  );
  const users = [
    {
      id: "k1",
      email: "Kc-Ada@example.com",
      emailVerified: true,
      firstName: "Ada",
      credentials: [pbkdf2Password],
    },
    { id: "k2", email: "kc-ben@example.com", emailVerified: true, credentials: [argon2Password, otp] },
    { id: "k3", email: ADMIN.email, emailVerified: true, credentials: [pbkdf2Password] },
  ];
  await writeFile(at("realm.json"), JSON.stringify({ realm: "shop", users }, undefined, 2));
  const checked = await importUsers("realm.json", "--from", "keycloak", "--check");
  expect([checked.code, checked.out]).toEqual([1, expect.stringContaining("Would import 2, refused 1.")]);
  expect((await logIn("kc-ada@example.com")).status).toBe(401);

  const { code, out } = await importUsers("realm.json", "--from", "keycloak");
  expect([code, out]).toEqual([1, expect.stringContaining("Imported 2, refused 1.")]);
  const [ada, ben, admin] = await reportOf("realm.json");
  expect(admin).toEqual({ at: 3, id: "k3", refused: "address_taken" });
  await api.logIn(ADMIN);

  await using database = await databaseOfSystem(system, "identity");
  const hashes = async () => {
    const rows = await database.sql<{ hash: string }[]>`
      select password_hash as hash from users where email in ('kc-ada@example.com', 'kc-ben@example.com') order by email`;
    return rows.map(({ hash }) => hash);
  };
  expect(await hashes()).toEqual([
    expect.stringMatching(/^\$pbkdf2-sha512\$i=2000\$/),
    expect.stringMatching(/^\$argon2id\$v=19\$m=1024,/),
  ]);
  expect((await logIn("kc-ada@example.com", "wrong")).body.error.code).toBe("invalid_credentials");
  const login = await logIn("kc-ada@example.com");
  expect(login).toMatchObject({
    status: 200,
    body: { data: { user: { id: ada?.userId, firstName: "Ada" } } },
  });
  const asked = await logIn("kc-ben@example.com");
  expect(asked.body.data).toMatchObject({ requireMfa: true });
  const secret = new ScureBase32Plugin().encode(TOTP_KEY);
  const answer = { tempToken: asked.body.data.tempToken, code: generateSync({ secret }) };
  const done = await api.post("/auth/mfa/verify", answer);
  expect(done).toMatchObject({ status: 200, body: { data: { user: { id: ben?.userId } } } });
  expect(await hashes()).toEqual([
    expect.stringMatching(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/),
    expect.stringMatching(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/),
  ]);
  expect((await logIn("kc-ada@example.com")).status).toBe(200);

  const { accessToken: token } = await api.logIn(ADMIN);
  await expect
    .poll(async () => (await api.get(`/admin/audit?resource=${ada?.userId}`, { token })).body.data.entries)
    .toContainEqual(
      expect.objectContaining({
        action: "user.imported",
        actor: expect.objectContaining({ role: "OPERATOR" }),
        reason: expect.stringMatching(
          /^import [0-9a-f-]{36} row 1: address verified by the operator's claim$/,
        ),
      }),
    );
});

test("an import that is killed goes on where it was: nobody twice, nobody lost, and users log in meanwhile", async () => {
  const USERS = 2_000;
  const users = Array.from({ length: USERS }, (_, index) => ({
    id: `old-${index}`,
    email: `kill-${index}@example.com`,
    emailVerified: true,
    passwordHash: "$2b$10$qV8KHX9dXp5Bzkk1dE538uWY6QUIMGbMJe0uV.v0Dtc0CRRqPuOOW",
  }));
  await writeFile(at("users.ndjson"), users.map((user) => `${JSON.stringify(user)}\n`).join(""));
  await using database = await databaseOfSystem(system, "identity");
  const count = async () => {
    const [row] = await database.sql<{ users: number }[]>`
      select count(*)::int as users from users where email like 'kill-%'`;
    return row?.users ?? 0;
  };
  const argv = [
    CLI,
    "users",
    "import",
    at("users.ndjson"),
    "--from",
    "ndjson",
    "--output",
    at("killed.report"),
  ];
  const killed = spawn(process.execPath, argv, { env: environment(), stdio: "ignore" });
  await expect.poll(count, { timeout: 60_000, interval: 5 }).toBeGreaterThan(200);
  expect((await logIn("kill-0@example.com")).status).toBe(200);
  killed.kill("SIGKILL");
  await once(killed, "close");

  // Two at once: each sends what is next, and it is stored once.
  const both = await Promise.all([
    importUsers("users.ndjson", "--from", "ndjson"),
    importUsers("users.ndjson", "--from", "ndjson"),
  ]);
  expect(both.map(({ code, out }) => [code, out.split("\n")[0]])).toEqual([
    [0, "Imported 2,000, refused 0."],
    [0, "Imported 2,000, refused 0."],
  ]);
  expect(await count()).toBe(USERS);
  const report = await reportOf("users.ndjson");
  expect(report.map(({ id }) => id)).toEqual(users.map(({ id }) => id));
  expect(new Set(report.map(({ userId }) => userId)).size).toBe(USERS);
  const [events] = await database.sql<{ notified: number }[]>`
    select count(distinct user_id)::int as notified from security_events
    where type = 'imported' and user_id in (select id from users where email like 'kill-%')`;
  expect(events?.notified).toBe(USERS);
});
