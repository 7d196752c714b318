import { execFile } from "node:child_process";
import { chmod, readFile, rename, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { issueCertificate } from "#deploy/certificate-pair.ts";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { databaseOfSystem } from "../support/database/system-database.ts";
import { freePort } from "../support/system/free-port.ts";
import { BARE_ENVIRONMENT, type System, startSystem } from "../support/system/system.ts";

const CLI = resolve(import.meta.dirname, "../../cli/main.ts");
const DAY_MS = 86_400_000;
/** Migration of token-service. */
const FIRST = "0001_tables.sql";

let system: System;
beforeAll(async () => {
  system = await startSystem({ environment: { WEB: "off" } });
});
afterAll(() => system.remove());

interface Check {
  area: string;
  subject: string;
  result: string;
  isChecked: boolean;
  found: string;
  action: string;
}

function doctor(argv: string[] = [], environment: Record<string, string> = {}) {
  const env = { ...BARE_ENVIRONMENT, ...environment };
  const home = environment.TLS_CERT_FILE === undefined ? ["--home", system.home] : [];
  return new Promise<{ code: number; out: string; error: string }>((done) => {
    execFile(process.execPath, [CLI, "doctor", ...home, ...argv], { env }, (failure, out, error) => {
      done({ code: failure === null ? 0 : Number(failure.code), out, error });
    });
  });
}

async function findings(argv: string[] = [], environment: Record<string, string> = {}) {
  const { code, out, error } = await doctor(["--json", ...argv], environment);
  expect(error).toBe("");
  return { code, ...(JSON.parse(out) as { isSound: boolean; checks: Check[] }) };
}

/** What is not well, in a line each, without the home's path. */
const notWell = (checks: readonly Check[], result: string) =>
  checks
    .filter((check) => check.result === result)
    .map(({ area, subject, found }) => `${area} of ${subject}: ${found}`.replaceAll(system.home, "…"))
    .sort();

/** Of the running system, by what the launcher has printed. */
function pidOf(name: string): number {
  return Number(new RegExp(`^ {2}${name} +\\S+ +(\\d+)$`, "m").exec(system.output())?.[1]);
}

/** A file that is put back after the test. */
async function replaceFile(path: string, content: string): Promise<void> {
  await rename(path, `${path}.kept`);
  onTestFinished(() => rename(`${path}.kept`, path));
  await writeFile(path, content, { mode: 0o600 });
}

async function authority() {
  const [certificate, key] = await Promise.all(
    ["ca.crt", "ca.key"].map((name) => readFile(join(system.home, "tls", name), "utf8")),
  );
  return { certificate: certificate ?? "", key: key ?? "" };
}

test("a system that is well is found so: one line, or all checks, and exit code 0", async () => {
  const short = await doctor();
  expect(short).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+ ok\n$/) });
  const { code, out } = await doctor(["--verbose"]);
  expect([code, out.endsWith(short.out)]).toEqual([0, true]);
  const lines = out.trimEnd().split("\n");
  // A path is one word.
  expect(lines.filter((line) => line.length > 80 && !line.includes("/"))).toEqual([]);
  const starts = lines.flatMap((line) => /^ {2}ok {6} ([a-z]+): /.exec(line)?.[1] ?? []);
  const areas = new Set(starts);
  expect([...areas].sort()).toEqual(
    ["certificate", "clock", "configuration", "database", "permission", "port", "redis", "version"].sort(),
  );
});

test("an expired certificate, an open key, rights and settings of databases, and a service that hangs are found, all at once", async () => {
  const gateway = certificateFiles(join(system.home, "tls"), "gateway");
  const old = await issueCertificate(await authority(), "gateway", new Date(Date.now() - 31 * DAY_MS));
  await replaceFile(gateway.certificate, old.certificate);
  await replaceFile(gateway.key, old.key);
  const linkKey = join(system.home, "secrets", "link-key");
  await chmod(linkKey, 0o644);
  onTestFinished(() => chmod(linkKey, 0o600));
  await using token = await databaseOfSystem(system, "token");
  await using audit = await databaseOfSystem(system, "audit");
  const undo = [
    "alter role gatehouse_token nocreatedb",
    "alter role gatehouse_token in database token reset synchronous_commit",
    "alter database token reset default_transaction_isolation",
    "revoke connect on database identity from gatehouse_token",
    `update schema_migrations set name = '${FIRST}' where name = 'away'`,
  ];
  await token.sql.unsafe("alter role gatehouse_token createdb");
  await token.sql.unsafe("alter role gatehouse_token in database token set synchronous_commit = off");
  await token.sql.unsafe("alter database token set default_transaction_isolation = 'serializable'");
  await token.sql.unsafe("grant connect on database identity to gatehouse_token");
  await audit.sql.unsafe("grant update (reason), truncate on log_entries to gatehouse_audit");
  await token.sql.unsafe(`update schema_migrations set name = 'away' where name = '${FIRST}'`);
  const hanging = pidOf("audit-service");
  process.kill(hanging, "SIGSTOP");
  const { code, isSound, checks } = await findings().finally(async () => {
    process.kill(hanging, "SIGCONT");
    for (const statement of undo) await token.sql.unsafe(statement);
    await audit.sql.unsafe("revoke update (reason), truncate on log_entries from gatehouse_audit");
  });

  expect({ code, isSound }).toEqual({ code: 1, isSound: false });
  expect(notWell(checks, "failed")).toEqual([
    expect.stringMatching(/^certificate of gateway: …\/tls\/gateway\.crt expired on /),
    "configuration of identity-service: LINK_KEY_FILE: the file is open to other users: make its mode 0400, or 0440 for a group",
    "database of token-service: default_transaction_isolation is serializable",
    "database of token-service: synchronous_commit is off",
    expect.stringMatching(
      /^database of token-service: the schema is not this version's \(this database was made by a commit before/,
    ),
    "permission of audit log: the role may change log_entries",
    "permission of role of audit-service: gatehouse_audit may empty log_entries",
    "permission of role of token-service: gatehouse_token is createdb, may connect to the database identity",
    "permission of …/secrets/link-key: others may use it (mode …044)",
    expect.stringMatching(/^port of audit-service: 127\.0\.0\.1:\d+ cannot be reached/),
    expect.stringMatching(/^port of audit-service: 127\.0\.0\.1:\d+ cannot be reached/),
  ]);
  expect(
    checks.filter(({ isChecked }) => !isChecked).map(({ area, subject }) => `${area} of ${subject}`),
  ).toEqual(
    expect.arrayContaining([
      "version of audit-service",
      "clock of audit-service",
      "permission of audit-service",
    ]),
  );
  // Whatever is not well says what to do.
  expect(checks.filter(({ result, action }) => result === "failed" && action === "")).toEqual([]);
});

test("another service at the address, a stopped one, an auditor, and a home that others may read", async () => {
  const { IDENTITY_PORT } = system.ports;
  const nobody = await freePort();
  await chmod(system.home, 0o755);
  onTestFinished(() => chmod(system.home, 0o700));
  const auditor = certificateFiles(join(system.home, "tls"), "auditor");
  const { code, checks } = await findings([
    ...["--token-service-address", `127.0.0.1:${IDENTITY_PORT}`],
    ...["--audit-operations-address", `127.0.0.1:${nobody}`],
    ...["--tls-cert-file", auditor.certificate, "--tls-key-file", auditor.key],
  ]);
  expect(code).toBe(1);
  expect(notWell(checks, "failed")).toEqual([
    "permission of …: others may use it (mode …055)",
    expect.stringMatching(/^port of audit-service: 127\.0\.0\.1:\d+ cannot be reached \(.*ECONNREFUSED/),
    `port of token-service: identity-service answers at 127.0.0.1:${IDENTITY_PORT}`,
  ]);
  expect(notWell(checks, "warning")).toEqual(
    expect.arrayContaining([
      expect.stringMatching(
        /^permission of token-service: not checked: only an operator may ask, and this is auditor:/,
      ),
    ]),
  );
});

test("without the local Gatehouse it takes variables from files, and says what it does not know", async () => {
  const operator = certificateFiles(join(system.home, "tls"), "operator");
  const environment = {
    TLS_CERT_FILE: operator.certificate,
    TLS_KEY_FILE: operator.key,
    TLS_CA_FILE: operator.authority,
    TOKEN_SERVICE_ADDRESS: `127.0.0.1:${system.ports.TOKEN_PORT}`,
    TOKEN_OPERATIONS_ADDRESS: `127.0.0.1:${system.ports.TOKEN_OPERATIONS_PORT}`,
  };
  const bare = await findings([], environment);
  expect(bare.code).toBe(0);
  const unchecked = bare.checks.filter(({ isChecked }) => !isChecked).map(({ found }) => found);
  expect(unchecked).toContainEqual(expect.stringContaining("AUDIT_SERVICE_ADDRESS: is required"));
  expect(unchecked).toContainEqual("not checked: GATEWAY_OPERATIONS_ADDRESS is not set");
  expect(unchecked).toContainEqual("not checked: the services' variables are not known here");

  const processes = JSON.parse(await readFile(join(system.home, "processes.json"), "utf8"));
  // As in the change of a database's password: docs/operations/rotate.md.
  await using token = await databaseOfSystem(system, "token");
  await token.sql.unsafe(
    "create role gatehouse_token_b login password 'second-password' in role gatehouse_token inherit",
  );
  const password = join(system.home, "second-password");
  await writeFile(password, "second-password", { mode: 0o600 });
  const { DATABASE_URL: url = "", ...others } = processes["token-service"] as Record<string, string>;
  const variables = Object.entries({
    ...others,
    DATABASE_URL: url.replace("gatehouse_token@", "gatehouse_token_b@"),
    DATABASE_PASSWORD_FILE: password,
    DATABASE_POOL_SIZE: "100",
  });
  const file = join(system.home, "token-service.env");
  await writeFile(file, variables.map(([name, value]) => `${name}='${value}'\n`).join(""));
  const known = await findings(["--variables", `token-service=${file}`], environment);
  expect(notWell(known.checks, "failed")).toEqual([]);
  expect(notWell(known.checks, "warning")).toContainEqual(
    expect.stringMatching(
      /^database of \S+: max_connections 200; .* takes 100, .*: too few for a second replica$/,
    ),
  );
  expect(known.checks).toContainEqual(
    expect.objectContaining({ area: "certificate", subject: "token-service", result: "ok" }),
  );
  expect(known.checks.find(({ subject }) => subject === "role of token-service")).toMatchObject({
    result: "ok",
    found: "gatehouse_token_b has no more rights than it needs",
  });
  await token.sql.unsafe("grant pg_read_all_data to gatehouse_token");
  const more = await findings(["--variables", `token-service=${file}`], environment);
  expect(notWell(more.checks, "failed")).toContainEqual(
    expect.stringMatching(/^permission of role of token-service: .* is a member of pg_read_all_data/),
  );
  expect(await doctor(["--variables", "nonsense"], environment)).toMatchObject({ code: 64 });
  const twice = Array(2).fill(["--variables", `token-service=${file}`]);
  expect(await doctor(twice.flat(), environment)).toMatchObject({ code: 64 });
});
