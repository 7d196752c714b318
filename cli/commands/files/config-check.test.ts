import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { run } from "../../run.ts";
import { COMMANDS } from "../commands.ts";

let certificates: TestCertificates;
let folder: string;

beforeAll(async () => {
  certificates = await createTestCertificates();
  folder = mkdtempSync(join(tmpdir(), "gatehouse-config-check-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await certificates.remove();
});

async function check(service: string, environment: Record<string, string>, ...argv: string[]) {
  let [out, error] = ["", ""];
  const code = await run(["config", "check", service, ...argv], COMMANDS, {
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

function file(name: string, text: string): string {
  writeFileSync(join(folder, name), text, { mode: 0o600 });
  return join(folder, name);
}

function ofTokenService(): Record<string, string> {
  return {
    ...certificates.environmentOf("token-service"),
    // Nothing listens on these, and nothing may be opened: a check must not need the ports of a running service.
    OPERATIONS_ADDRESS: "127.0.0.1:1",
    LISTEN_ADDRESS: "127.0.0.1:1",
    HEALTH_ADDRESS: "127.0.0.1:1",
    DATABASE_URL: "postgres://gatehouse_token@127.0.0.1:1/token",
    DATABASE_PASSWORD_FILE: file("password", "a secret word"),
    AUDIT_SERVICE_ADDRESS: "127.0.0.1:1",
    IDENTITY_SERVICE_ADDRESS: "127.0.0.1:1",
    TOKEN_ISSUER: "http://gatehouse.test",
    KEY_ENCRYPTION_KEY_FILE: file("key", randomBytes(32).toString("base64")),
  };
}

test("a valid configuration: 0, and the service was not started", async () => {
  expect(await check("token-service", ofTokenService())).toEqual({
    code: 0,
    out: "token-service could start with this configuration\nBy the environment.\n",
    error: "",
  });
});

test("all problems of a file at once, without values: 78", async () => {
  const { TOKEN_ISSUER: _missing, ...given } = ofTokenService();
  const variables = { ...given, LISTEN_ADDRESS: "treasure", DATABASE_URL: "postgres://u:treasure@h/d" };
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}\n`);
  const { code, out, error } = await check(
    "token-service",
    {},
    "--json",
    "--variables",
    file("env", lines.join("")),
  );
  expect({ code, error }).toEqual({ code: 78, error: "" });
  expect(JSON.parse(out)).toEqual({
    service: "token-service",
    problems: expect.arrayContaining([
      "LISTEN_ADDRESS: must be host:port",
      "TOKEN_ISSUER: is required",
      "DATABASE_URL: put the password into DATABASE_PASSWORD_FILE",
    ]),
  });
  expect(out).not.toContain("treasure");
});

test.each([
  ["my-shop", 0],
  ["my-shop, other-shop", 0],
  ["gateway,my-shop", 0],
  ["my-shop,", 78],
  ["My Shop", 78],
  ["spiffe://gatehouse/my-shop", 78],
  ["operator", 78],
  ["operator/ada", 78],
] as const)(
  "VERIFIERS=%s: %i, because a certificate can have these names or not",
  async (VERIFIERS, expected) => {
    const { code, out } = await check("token-service", { ...ofTokenService(), VERIFIERS });
    expect(code).toBe(expected);
    if (code !== 0) expect(out).toContain("VERIFIERS: must be a comma list of services' names");
  },
);

test.each(["gateway", "identity-service", "audit-service"])(
  "%s checks its configuration, too",
  async (service) => {
    const { code, out } = await check(service, {});
    expect({ code, out }).toEqual({
      code: 78,
      out: expect.stringContaining("OPERATIONS_ADDRESS: is required"),
    });
  },
);

test("an unknown service and a missing file", async () => {
  expect(await check("mailbox", {})).toMatchObject({
    code: 64,
    error: expect.stringMatching(/must be one of gateway, identity-service/),
  });
  expect(await check("gateway", {}, "--variables", join(folder, "none"))).toMatchObject({ code: 78 });
});

test("as a program: Node.js takes no part in the file of variables", () => {
  const program = resolve(import.meta.dirname, "..", "..", "main.ts");
  const argv = [program, "config", "check", "gateway", "--variables", join(folder, "none")];
  expect(spawnSync(process.execPath, argv, { encoding: "utf8" })).toMatchObject({
    status: 78,
    stderr: expect.stringContaining("none cannot be read: ENOENT"),
  });
});

test("no option is one that Node.js reads wherever it stands in a command line", () => {
  const names = COMMANDS.flatMap(({ options }) => Object.keys(options));
  expect(names.filter((name) => name.startsWith("env-file"))).toEqual([]);
});

test.each([
  ["12", "24", true],
  ["12", "0", true],
  ["24", "24", false],
  ["0", "24", false],
  ["0", "0", false],
])(
  "evidence that is kept for %s months and a log for %s: a warning is %s",
  async (approvals, log, isWarned) => {
    const environment = {
      ...ofTokenService(),
      APPROVAL_RETENTION_MONTHS: approvals,
      AUDIT_RETENTION_MONTHS: log,
    };
    const { code, out } = await check("token-service", environment, "--json");
    expect(code).toBe(0);
    expect(JSON.parse(out).warnings).toHaveLength(isWarned ? 1 : 0);
  },
);

test.each([
  ["https://auth.example.com", 0],
  ["https://www.example.com", 1],
])(
  "PUBLIC_ORIGIN %s beside the issuer https://auth.example.com: %i warnings",
  async (PUBLIC_ORIGIN, count) => {
    const environment = { ...ofTokenService(), TOKEN_ISSUER: "https://auth.example.com", PUBLIC_ORIGIN };
    const { code, out } = await check("token-service", environment, "--json");
    expect([code, JSON.parse(out).warnings.length]).toEqual([0, count]);
  },
);

test("beside a running npm start its own variables are checked, unless the environment names another system", async () => {
  const home = mkdtempSync(join(folder, "home-"));
  const given = { "token-service": { ...ofTokenService(), TOKEN_ISSUER: "no origin" } };
  writeFileSync(join(home, "processes.json"), JSON.stringify(given));
  const checkBeside = async (environment: Record<string, string>) => {
    const printed: string[] = [];
    const writeOut = (text: string) => void printed.push(text);
    const context = { environment, defaultHome: home, writeOut, writeError: writeOut };
    const code = await run(["config", "check", "token-service"], COMMANDS, context);
    return [code, printed.join("").trim().split("\n").at(-1)];
  };
  expect(await checkBeside({})).toEqual([78, `By ${join(home, "processes.json")}.`]);
  expect(await checkBeside(ofTokenService())).toEqual([0, "By the environment."]);
});
