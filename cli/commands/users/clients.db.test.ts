import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair } from "jose";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import { CLIENT_ADMIN_CALLERS, createClientAdminRpc } from "#identity-service/client-admin-rpc.ts";
import { verifyApiKey } from "#identity-service/clients/api-keys.ts";
import { authenticateClient } from "#identity-service/clients/authenticate-client.ts";
import { startWithAnna, type TestDeps } from "#identity-service/testing/test-deps.ts";
import { createUserAdminRpc, USER_ADMIN_CALLERS } from "#identity-service/user-admin-rpc.ts";
import { RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { ERROR_CATALOGUE } from "#kit/values/errors.ts";
import { ClientAdminServiceService } from "#proto/gatehouse/identity/v1/client_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { EXIT } from "../../exit-code.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

const NOT_FOUND = ERROR_CATALOGUE.not_found;

let certificates: TestCertificates;
let database: TestDatabase;
let deps: TestDeps;
let ownerId: string;
let readings: ReturnType<typeof noteReadings>;
let server: RpcServer;
let port: number;
let folder: string;

beforeAll(async () => {
  certificates = await createTestCertificates();
  database = await createTestDatabase("identity-service");
  folder = await mkdtemp(join(tmpdir(), "gatehouse-clients-"));
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "clients", "client_ends");
  const started = await startWithAnna(database);
  deps = { ...started.deps, now: () => new Date() };
  ownerId = started.userId;
  readings = noteReadings();
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("identity-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("identity-service"),
  });
  const { recordReading } = readings;
  server.add(ClientAdminServiceService, CLIENT_ADMIN_CALLERS, createClientAdminRpc(deps, recordReading));
  server.add(UserAdminServiceService, USER_ADMIN_CALLERS, createUserAdminRpc(deps, recordReading));
  port = await server.listen();
  return () => server.close(0);
});
afterAll(async () => {
  await certificates.remove();
  await database.drop();
  await rm(folder, { recursive: true, force: true });
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

/** With `--json`. */
async function answered(...argv: string[]) {
  const { code, out, error } = await gatehouse([...argv, "--json"]);
  expect([code, error]).toEqual([EXIT.ok, ""]);
  return JSON.parse(out);
}
const newClient = async (name = "Shop"): Promise<string> =>
  (await answered("clients", "create", name, "--owner", ownerId, "--permission", "payments:read")).client.id;
const authenticate = (clientId: string, secret: string) =>
  authenticateClient(deps, { kind: "secret", clientId, secret }, "192.0.2.1").then(
    () => "proven",
    (error: { code: string }) => error.code,
  );

test("a client is created, shown, listed page by page and by owner, changed, and deleted", async () => {
  const made = await gatehouse(
    ["clients", "create", "Shop", "--owner", ownerId].concat(
      ["payments:read", "payments:write"].flatMap((name) => ["--permission", name]),
    ),
  );
  expect(made.code).toBe(EXIT.ok);
  const [id = ""] = made.out.split(" ");
  expect(made.out).toBe(`${id} was made\n`);
  const other = await newClient("Other");

  const { client } = await answered("clients", "show", id);
  const facts = { id, name: "Shop", ownerId, status: "active" };
  const permissions = ["payments:read", "payments:write"];
  expect(client).toMatchObject({ ...facts, permissions, credentials: [] });
  const shown = await gatehouse(["clients", "show", id]);
  for (const [name, value] of Object.entries({ ...facts, permissions: permissions.join(" ") }))
    expect(shown.out).toMatch(new RegExp(`^${name} +${value}$`, "m"));

  const first = await answered("clients", "list", "--limit", "1");
  expect(first.clients).toMatchObject([{ id: other }]);
  const second = await answered("clients", "list", "--limit", "1", "--cursor", first.nextCursor);
  expect([second.clients[0].id, second.nextCursor]).toEqual([id, null]);
  expect((await gatehouse(["clients", "list", "--limit", "1"])).out).toContain(`More: --cursor ${other}`);
  expect((await answered("clients", "list", "--owner", "none")).clients).toEqual([]);
  expect((await answered("clients", "list", "--owner", ownerId)).clients).toHaveLength(2);

  const change = ["clients", "change", id, "--name", "Shop 2", "--permission", "payments:read", "--disable"];
  expect(await gatehouse(change)).toMatchObject({ code: EXIT.ok, out: `${id} is disabled\n` });
  expect((await answered("clients", "change", id, "--enable")).client).toMatchObject({
    name: "Shop 2",
    permissions: ["payments:read"],
    status: "active",
  });

  expect(await gatehouse(["clients", "delete", id])).toMatchObject({ code: EXIT.usage, out: "" });
  expect(await gatehouse(["clients", "delete", id, "--yes"])).toMatchObject({ out: `${id} is deleted\n` });
  const gone = await gatehouse(["clients", "show", id]);
  expect([gone.code, gone.error]).toEqual([EXIT.failed, expect.stringContaining(NOT_FOUND)]);
});

test("a secret and an API key are shown once: printed last on a line of their own, and by no other command", async () => {
  const id = await newClient();
  const printed = async (flag: string) => {
    const { code, out, error } = await gatehouse(["clients", "add-credential", id, flag, "--name", "May"]);
    expect([code, error]).toEqual([EXIT.ok, ""]);
    const [line = "", secret = "", rest] = out.split("\n");
    const [, credentialId = ""] = line.split(" ");
    expect(rest).toBe("");
    return { credentialId, secret };
  };
  const secret = await printed("--secret");
  const apiKey = await printed("--api-key");
  expect(await authenticate(id, secret.secret)).toBe("proven");
  expect(await verifyApiKey(deps, apiKey.secret)).toMatchObject({ clientId: id });

  const later = [
    await gatehouse(["clients", "show", id]),
    await gatehouse(["clients", "show", id, "--json"]),
    await gatehouse(["clients", "list", "--json"]),
  ];
  for (const { out } of later) {
    expect(out).not.toContain(secret.secret);
    expect(out).not.toContain(apiKey.secret.slice(-43));
  }
  expect(later[0]?.out).toMatch(new RegExp(`${secret.credentialId} +secret +May`));

  const removed = await gatehouse(["clients", "remove-credential", id, secret.credentialId]);
  expect(removed).toMatchObject({ code: EXIT.ok, out: `${secret.credentialId} is revoked\n` });
  expect(await authenticate(id, secret.secret)).toBe("invalid_client");
  expect(deps.tokenService.revokeClientTokens).toHaveBeenLastCalledWith(
    [secret.credentialId],
    expect.anything(),
  );
});

test("a public key comes from a file; a private one is refused and not repeated in the error", async () => {
  const id = await newClient();
  const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const publicFile = await write(
    "public.jwk",
    JSON.stringify({ ...(await exportJWK(publicKey)), kid: "may" }),
  );
  const added = await answered("clients", "add-credential", id, "--public-key", publicFile);
  expect(added).toMatchObject({ credential: { kind: "public_key", keyId: "may" }, secret: null });
  const privateJwk = await exportJWK(privateKey);
  const privateFile = await write("private.jwk", JSON.stringify(privateJwk));
  const refused = await gatehouse(["clients", "add-credential", id, "--public-key", privateFile]);
  expect([refused.code, refused.out]).toEqual([EXIT.failed, ""]);
  expect(refused.error).toContain("is a private or a symmetric key");
  expect(refused.error).not.toContain(String(privateJwk.d));
});

test.each([
  [["clients", "create", "Shop", "--permission", "payments:read"], "--owner"],
  [["clients", "create", "Shop", "--owner", randomUUID()], "--permission"],
  [["clients", "list", "--limit", "0"], "--limit"],
  [["clients", "change", randomUUID(), "--enable", "--disable"], "not both"],
  [["clients", "add-credential", randomUUID()], "one of --public-key"],
  [["clients", "add-credential", randomUUID(), "--secret", "--api-key"], "one of --public-key"],
  [
    ["clients", "add-credential", randomUUID(), "--public-key", "/no/such/file"],
    "/no/such/file cannot be read",
  ],
  [["clients", "remove-credential", randomUUID()], "credential"],
])("%j is a wrong use, which calls nobody", async (argv, text) => {
  const { code, out, error } = await gatehouse(argv);
  expect([code, out]).toEqual([EXIT.usage, ""]);
  expect(error).toContain(text);
});

test("what the service refuses is said with its code, and has an exit code other than wrong use", async () => {
  const nobody = randomUUID();
  const create = ["clients", "create", "Shop", "--owner", nobody, "--permission", "payments:read"];
  const unknown = ["clients", "create", "Shop", "--owner", ownerId, "--permission", "no:such"];
  for (const [argv, text] of [
    [create, "ownerId"],
    [unknown, "permissions"],
    [["clients", "show", nobody], NOT_FOUND],
    [["clients", "change", nobody, "--name", "x"], NOT_FOUND],
    [["clients", "delete", nobody, "--yes"], NOT_FOUND],
    [["clients", "add-credential", nobody, "--secret"], NOT_FOUND],
    [["clients", "remove-credential", nobody, nobody], NOT_FOUND],
    [["clients", "list", "--cursor", "nonsense"], "cursor"],
  ] as const) {
    const { code, out, error } = await gatehouse([...argv]);
    expect([code, out], argv.join(" ")).toEqual([EXIT.failed, ""]);
    expect(error).toContain(text);
  }
});

test("an auditor and other services may neither read nor change clients; what an operator reads is recorded", async () => {
  const id = await newClient();
  for (const caller of ["auditor", "token-service"] as const) {
    for (const argv of [
      ["clients", "list"],
      ["clients", "show", id],
      ["clients", "add-credential", id, "--api-key"],
      ["clients", "delete", id, "--yes"],
    ])
      expect((await gatehouse(argv, caller)).code, `${caller} ${argv.join(" ")}`).toBe(EXIT.failed);
  }
  readings.noted.length = 0;
  await gatehouse(["clients", "list", "--owner", "none"]);
  await gatehouse(["clients", "show", id]);
  expect(readings.noted).toMatchObject([
    { action: "client.listed" },
    { action: "client.read", resource: id },
  ]);
});

test("who disables or deletes a user is shown the user's clients, and may disable them too", async () => {
  const id = await newClient();
  const shown = await gatehouse(["users", "disable", ownerId]);
  expect(shown.out).toMatch(new RegExp(`${id} +Shop +active`));
  expect(shown.out).toContain("They go on working");
  const ended = await gatehouse(["users", "disable", ownerId, "--disable-clients"]);
  expect(ended.out).toMatch(new RegExp(`${id} +Shop +disabled`));
  expect(ended.out).not.toContain("They go on working");
  await gatehouse(["clients", "change", id, "--enable"]);
  const deleted = await answered("users", "delete", ownerId, "--yes", "--disable-clients");
  expect(deleted).toMatchObject({ userId: ownerId, clients: [{ id, name: "Shop", status: "disabled" }] });
});
