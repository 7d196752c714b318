import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, inject, onTestFinished, test } from "vitest";
import { type Home, openHome } from "../home.ts";
import { readSettings } from "../settings.ts";
import { connectTo } from "./ensure-database.ts";
import { adoptServer, externalServer, refuseFresh, requireSameServer } from "./external-postgres.ts";

const { server } = inject("postgres");

async function newHome(): Promise<Home> {
  const path = await mkdtemp(join(tmpdir(), "gatehouse-home-"));
  onTestFinished(() => rm(path, { recursive: true }));
  return openHome(path);
}

/** A login role without rights. */
async function newRole() {
  const admin = connectTo(server, "postgres");
  const username = `gatehouse_test_${Math.random().toString(36).slice(2)}`;
  await admin.unsafe(`create role ${username} login password 'of a test'`);
  await admin.unsafe(`grant connect on database postgres to ${username}`);
  onTestFinished(async () => {
    await admin.unsafe(`revoke connect on database postgres from ${username}; drop role ${username}`);
    await admin.end();
  });
  return { ...server, username, password: "of a test" };
}

test("a role that may not make roles and databases is refused, with the statement that helps", async () => {
  const role = await newRole();
  await expect(adoptServer(await newHome(), role)).rejects.toThrow(
    `alter role "${role.username}" createrole createdb;`,
  );
});

test("a wrong password and an absent server say so", async () => {
  const home = await newHome();
  await expect(adoptServer(home, { ...server, password: "wrong" })).rejects.toThrow(
    "password authentication failed",
  );
  await expect(adoptServer(home, { ...server, port: 1 })).rejects.toThrow(
    /ECONNREFUSED.*GATEHOUSE_POSTGRES_URL/,
  );
});

test("another installation's roles and databases are not taken over", async () => {
  const home = await newHome();
  // The roles of the tests' own databases.
  await expect(adoptServer(home, server)).rejects.toThrow(
    /has .*the role gatehouse_identity\b.* already, and not from this home/,
  );
  await writeFile(home.databaseFile, JSON.stringify({ host: server.host, port: server.port }));
  await adoptServer(home, server);
});

test("a home does not begin anew elsewhere while its data is at another server", async () => {
  const home = await newHome();
  await requireSameServer(home, undefined);
  await requireSameServer(home, server);
  await writeFile(home.databaseFile, '{"host":"db.example","port":5432}');
  await expect(requireSameServer(home, undefined)).rejects.toThrow("is in PostgreSQL at db.example:5432");
  await expect(requireSameServer(home, server)).rejects.toThrow(
    "is in PostgreSQL at db.example:5432, not at",
  );
  await expect(refuseFresh(home)).rejects.toThrow(/drop database identity;.*drop role gatehouse_identity/s);
  expect(await readFile(home.databaseFile, "utf8")).toContain("db.example");
  const embedded = await newHome();
  await writeFile(embedded.postgres, "");
  await expect(requireSameServer(embedded, server)).rejects.toThrow("is in its own PostgreSQL");
});

test.each([
  [
    "postgres://a:b%40c@127.0.0.1:5433/maintenance",
    { username: "a", password: "b@c", port: 5433, database: "maintenance" },
  ],
  ["postgresql://localhost", { username: "postgres", password: "", port: 5432 }],
  ["postgres://a@[::1]", { host: "::1" }],
])("%s is understood", (url, expected) => {
  expect(externalServer(readSettings({ GATEHOUSE_POSTGRES_URL: url }, "/r"))).toMatchObject(expected);
});

test("a server elsewhere needs TLS, or the user's word; parameters of drivers are refused", () => {
  const read = (environment: NodeJS.ProcessEnv) => externalServer(readSettings(environment, "/r"));
  const GATEHOUSE_POSTGRES_URL = "postgres://a@db.example";
  expect(() => read({ GATEHOUSE_POSTGRES_URL })).toThrow("GATEHOUSE_POSTGRES_CA_FILE");
  expect(read({ GATEHOUSE_POSTGRES_URL, GATEHOUSE_PLAINTEXT: "true" })?.host).toBe("db.example");
  expect(read({ GATEHOUSE_POSTGRES_URL, GATEHOUSE_POSTGRES_CA_FILE: "/ca" })?.caFile).toBe("/ca");
  expect(() => read({ GATEHOUSE_POSTGRES_URL: "postgres://a@b?sslmode=require" })).toThrow(
    "takes no parameters",
  );
});
