import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { noteReadings } from "#audit-client/stream/entry.fixture.ts";
import { addReflection } from "#kit/rpc/reflection.ts";
import { type Implementation, RpcServer } from "#kit/rpc/rpc-server.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type KeyServiceServer, KeyServiceService } from "#proto/gatehouse/token/v1/key_service.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { BARE_ENVIRONMENT } from "#tests/support/system/system.ts";
import { startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { createKeyRpc, keyCallers } from "#token-service/key-rpc.ts";
import { COMMANDS } from "./commands/commands.ts";
import { run } from "./run.ts";

let certificates: TestCertificates;
let database: TestDatabase;
let replica: TokenReplica;
let server: RpcServer;
let port: number;
let readings: ReturnType<typeof noteReadings>;
let revokedFor: string[];
let broken: Partial<Implementation<KeyServiceServer>>;

beforeAll(async () => {
  certificates = await createTestCertificates();
});

afterAll(() => certificates.remove());

beforeEach(async () => {
  database = await createTestDatabase("token-service");
  replica = await startTokenReplica(database.sql);
  revokedFor = [];
  readings = noteReadings();
  broken = {};
  server = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
  });
  const methods = createKeyRpc(replica.deps, readings.recordReading);
  server.add(KeyServiceService, keyCallers, {
    listSigningKeys: (request, context) => methods.listSigningKeys(request, context),
    rotateSigningKey: (request, context) =>
      (broken.rotateSigningKey ?? methods.rotateSigningKey)(request, context),
    revokeSigningKey(request, context) {
      revokedFor.push(request.reason);
      return methods.revokeSigningKey(request, context);
    },
  });
  addReflection(server);
  port = await server.listen();
});

afterEach(async () => {
  await server.close(0);
  replica.stop();
  await database.drop();
});

type Caller = Parameters<TestCertificates["of"]>[0];

function environmentOf(caller: Caller = "operator") {
  return { TOKEN_SERVICE_ADDRESS: `127.0.0.1:${port}`, ...certificates.environmentOf(caller) };
}

async function gatehouse(argv: string[], environment: Record<string, string> = environmentOf()) {
  let out = "";
  let error = "";
  const code = await run(argv, COMMANDS, {
    environment,
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

interface KeyList {
  keys: { keyId: string; state: string; retiredAt: string | null }[];
}

async function keys(): Promise<KeyList["keys"]> {
  const { out } = await gatehouse(["keys", "list", "--json"]);
  return (JSON.parse(out) as KeyList).keys;
}

const keyIn = async (state: string) => (await keys()).find((key) => key.state === state)?.keyId ?? "";

test("keys list shows every key, as text and as JSON", async () => {
  const active = replica.deps.keys.active();
  expect(await keys()).toContainEqual({
    keyId: active.id,
    state: "active",
    algorithm: "EdDSA",
    createdAt: active.createdAt.toISOString(),
    activatedAt: active.activatedAt?.toISOString(),
    retiredAt: null,
  });
  const { code, out, error } = await gatehouse(["keys", "list"]);
  expect({ code, error }).toEqual({ code: 0, error: "" });
  const [head, ...rows] = out.trimEnd().split("\n");
  expect(head?.split(/ {2,}/)).toEqual(["KEY ID", "STATE", "ALGORITHM", "CREATED", "ACTIVATED", "RETIRED"]);
  expect(rows.map((row) => row.split(/ {2,}/).slice(0, 2))).toContainEqual([active.id, "active"]);
  expect(rows).toHaveLength(2);
});

test("keys rotate is refused while the next key is new, unless forced", async () => {
  const [before, next] = [await keyIn("active"), await keyIn("next")];
  const refused = await gatehouse(["keys", "rotate"]);
  expect(refused).toMatchObject({ code: 1, out: "", error: expect.stringMatching(/wait, or force/) });
  expect(await keyIn("active")).toBe(before);

  const forced = await gatehouse(["keys", "rotate", "--force", "--json"]);
  expect(forced).toMatchObject({ code: 0, error: "" });
  expect(JSON.parse(forced.out)).toMatchObject({ active: { keyId: next, state: "active" } });
  expect(await keyIn("retired")).toBe(before);
});

test("keys revoke bans the key with its reason, and another key becomes active", async () => {
  const [active, next] = [await keyIn("active"), await keyIn("next")];
  const { code, out } = await gatehouse(["keys", "revoke", "--reason", " leaked in a log ", "--", active]);
  expect({ code, out }).toEqual({ code: 0, out: `${active} is revoked (revocation 1)\n` });
  expect(revokedFor).toEqual(["leaked in a log"]);
  expect([await keyIn("revoked"), await keyIn("active")]).toEqual([active, next]);
});

test("changes of keys are in the audit log with the operator's name", async () => {
  await gatehouse(["keys", "list"]);
  expect(readings.noted).toMatchObject([
    { action: "key.listed", actor: { userId: "operator:tester", role: "OPERATOR" }, outcome: "success" },
  ]);
  await gatehouse(["keys", "rotate", "--force"]);
  await gatehouse(["keys", "revoke", "--reason", "leaked", "--", await keyIn("active")]);
  const events = await database.sql`select distinct type, person from security_events order by type`;
  expect([...events]).toEqual([
    { type: "signing_key_revoked", person: "operator:tester" },
    { type: "signing_key_rotated", person: "operator:tester" },
  ]);
});

test("an auditor may neither change nor list keys", async () => {
  for (const argv of [
    ["keys", "list"],
    ["keys", "rotate", "--force"],
  ]) {
    const { error } = await gatehouse([...argv, "--json"], environmentOf("auditor"));
    expect(JSON.parse(error)).toMatchObject({ error: { code: "caller_not_allowed" } });
  }
});

test("keys revoke of an unknown key is refused", async () => {
  const { code, error } = await gatehouse(["keys", "revoke", "nobody", "--reason", "x", "--json"]);
  expect(code).toBe(1);
  expect(JSON.parse(error)).toMatchObject({
    error: { code: "not_found", requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
  });
});

test.each([" ", "x".repeat(201)])("keys revoke with the reason %j calls no service", async (reason) => {
  expect(await gatehouse(["keys", "revoke", "kid", "--reason", reason])).toMatchObject({ code: 64, out: "" });
  expect(revokedFor).toEqual([]);
});

test.each(["gateway", "identity-service"] as const)("the certificate of %s is refused", async (caller) => {
  const before = await keyIn("active");
  const { code, error } = await gatehouse(["keys", "rotate", "--force", "--json"], environmentOf(caller));
  expect(code).toBe(1);
  expect(JSON.parse(error)).toMatchObject({ error: { code: "caller_not_allowed" } });
  expect(await keyIn("active")).toBe(before);
});

test("an unreachable service: 69, and why", async () => {
  await server.close(0);
  const { code, error } = await gatehouse(["keys", "list"]);
  expect({ code, error }).toEqual({
    code: 69,
    error: expect.stringMatching(/token-service at 127\.0\.0\.1:\d+ cannot be reached: .*ECONNREFUSED/),
  });
  expect(error).not.toMatch(/carried out/); // a list changes nothing
});

test("another service at the address, or one of another authority: 69, and no call is sent", async () => {
  const strangers = await createTestCertificates();
  try {
    const { TLS_CA_FILE } = strangers.environmentOf("operator");
    const result = await gatehouse(["keys", "rotate", "--force"], { ...environmentOf(), TLS_CA_FILE });
    expect(result).toMatchObject({ code: 69, error: expect.stringMatching(/certificate/) });
  } finally {
    await strangers.remove();
  }
  expect((await keys()).filter(({ state }) => state === "retired")).toEqual([]);
});

test.each([
  ["service_unavailable", 69, () => new DomainError("service_unavailable", "The database is away")],
  ["internal_error", 1, () => new Error("select secret")],
] as const)(
  "after %s a change may have been executed: the error says how to check",
  async (code, exitCode, failure) => {
    broken.rotateSigningKey = async () => {
      throw failure();
    };
    const text = await gatehouse(["keys", "rotate"]);
    expect(text).toMatchObject({
      code: exitCode,
      error: expect.stringMatching(/gatehouse keys list\nRequest id: /),
    });
    expect(text.error).not.toContain("secret");
    const json = await gatehouse(["keys", "rotate", "--json"]);
    expect(JSON.parse(json.error)).toMatchObject({ error: { code } });
  },
);

test("a missing database: unavailable, not failed", async () => {
  await database.ownerSql`alter table signing_keys rename to gone`;
  expect((await gatehouse(["keys", "list"])).code).toBe(1); // a missing table is a defect
  await database.sql.end({ timeout: 0 });
  expect(await gatehouse(["keys", "list"])).toMatchObject({ code: 69 });
});

test("a key that does not match the certificate: 78", async () => {
  const { TLS_KEY_FILE } = certificates.environmentOf("gateway");
  const { code, error } = await gatehouse(["keys", "list"], { ...environmentOf(), TLS_KEY_FILE });
  expect({ code, error }).toEqual({ code: 78, error: expect.stringMatching(/is not the key of/) });
});

test("an invalid certificate: 78", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-cli-"));
  try {
    const TLS_CERT_FILE = join(folder, "bad.pem");
    writeFileSync(TLS_CERT_FILE, "-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n");
    const result = await gatehouse(["keys", "list"], { ...environmentOf(), TLS_CERT_FILE });
    expect(result).toMatchObject({ code: 78, error: expect.stringMatching(/bad\.pem cannot be used/) });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** The program itself. */
function program(argv: string[], environment: Record<string, string>) {
  return new Promise<{ code: number; out: string; error: string }>((done) => {
    const entry = resolve(import.meta.dirname, "main.ts");
    const env = { ...BARE_ENVIRONMENT, ...environment };
    execFile(process.execPath, [entry, ...argv], { env }, (failure, out, error) => {
      done({ code: failure === null ? 0 : Number(failure.code), out, error });
    });
  });
}

test("the program uses a local home, prints, and exits with its code", async () => {
  const home = mkdtempSync(join(tmpdir(), "gatehouse-cli-home-"));
  try {
    const files = certificates.environmentOf("operator");
    mkdirSync(join(home, "tls"));
    cpSync(files.TLS_CERT_FILE, join(home, "tls", "operator.crt"));
    cpSync(files.TLS_KEY_FILE, join(home, "tls", "operator.key"));
    cpSync(files.TLS_CA_FILE, join(home, "tls", "ca.crt"));
    writeFileSync(join(home, "ports.json"), JSON.stringify({ TOKEN_PORT: port }));
    const list = await program(["keys", "list", "--home", home], {});
    expect(list).toMatchObject({ code: 0, error: "" });
    expect(list.out).toContain(replica.deps.keys.active().id);
    expect(await program(["keys", "rotate"], { GATEHOUSE_HOME: home })).toMatchObject({
      code: 1,
      out: "",
    });
  } finally {
    rmSync(home, { recursive: true });
  }
  expect(await program([], {})).toMatchObject({ code: 64, out: "" });
  expect(await program(["keys", "list", "--home", home], {})).toMatchObject({ code: 78, out: "" });
  expect(await program(["--help"], {})).toMatchObject({ code: 0, error: "" });
});

test("any method is called with JSON, by names that the service itself reports", async () => {
  const list = await gatehouse(["rpc", "--list"]);
  expect(list).toMatchObject({ code: 0, out: expect.stringContaining("KeyService/RevokeSigningKey") });
  const fields = await gatehouse(["rpc", "--list", "KeyService/RevokeSigningKey"]);
  expect(fields.out).toMatch(/Request:\n {2}keyId: string\n {2}reason: string/);
  const called = await gatehouse(["rpc", "gatehouse.token.v1.KeyService/ListSigningKeys"]);
  expect(JSON.parse(called.out).keys.map(({ keyId }: { keyId: string }) => keyId)).toContain(
    replica.deps.keys.active().id,
  );
  const refused = await gatehouse(["rpc", "KeyService/RotateSigningKey"]);
  expect(refused).toMatchObject({ code: 1, out: "" });
});

test.each([
  ["KeyService/RevokeSigningKey", '{"keyID":"a"}', /key "keyID" is unknown/],
  ["KeyService/RevokeSigningKey", "nonsense", /RevokeSigningKeyRequest/],
  ["KeyService/Revoke", "{}", /There are: ListSigningKeys/],
  ["NoService/X", "{}", /is not offered. There are: gatehouse.token.v1.KeyService/],
])("rpc %s %s is refused before anything is called", async (method, json, problem) => {
  expect(await gatehouse(["rpc", method, json])).toMatchObject({
    code: 64,
    error: expect.stringMatching(problem),
  });
  expect(revokedFor).toEqual([]);
});

test("a service that does not describe itself is distinguished from one that is broken", async () => {
  const mute = new RpcServer({
    address: "127.0.0.1:0",
    certificate: certificates.of("token-service"),
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
  });
  const address = `127.0.0.1:${await mute.listen()}`;
  try {
    const environment = { ...environmentOf(), TOKEN_SERVICE_ADDRESS: address };
    expect(await gatehouse(["rpc", "KeyService/ListSigningKeys"], environment)).toMatchObject({
      code: 1,
      error: expect.stringContaining("GRPC_REFLECTION=true of token-service"),
    });
  } finally {
    await mute.close(0);
  }
});

test.each(["auditor", "gateway", "audit-service"] as const)(
  "services and messages are shown to operators only, not to %s",
  async (caller) => {
    expect(await gatehouse(["rpc", "--list"], environmentOf(caller))).toMatchObject({
      code: 1,
      out: "",
      error: expect.stringContaining("may not call this method"),
    });
  },
);
