import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificateFiles } from "#deploy/local/certificates.ts";
import { readSettings, writePorts } from "#deploy/local/settings.ts";
import { backendSettings, type SettingsSources } from "./backend-settings.ts";

let root: string;
let home: string;
let file: string;

/** As `npm start` does, with these variables. */
async function startedWith(path: string, variables: Record<string, string>) {
  await writePorts({ portsFile: join(path, "ports.json") }, readSettings(variables, root));
}

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "gatehouse-cli-"));
  home = join(root, "home");
  mkdirSync(join(home, "tls"), { recursive: true });
  for (const path of Object.values(certificateFiles(join(home, "tls"), "operator")))
    writeFileSync(path, "PEM", { mode: 0o600 });
  await startedWith(home, { TOKEN_PORT: "4711" });
  file = join(root, "some.pem");
  writeFileSync(file, "PEM", { mode: 0o600 });
});

afterAll(() => rmSync(root, { recursive: true }));

function settings(sources: { values?: Record<string, string>; environment?: object; defaultHome?: string }) {
  const values = new Map(Object.entries(sources.values ?? {}));
  const environment = (sources.environment ?? {}) as SettingsSources["environment"];
  return backendSettings("token-service", {
    values,
    environment,
    defaultHome: sources.defaultHome ?? join(root, "no such home"),
  });
}

const environment = () => ({
  TOKEN_SERVICE_ADDRESS: "token.test:443",
  TLS_CERT_FILE: file,
  TLS_KEY_FILE: file,
  TLS_CA_FILE: file,
});

const ofHome = () => {
  const { certificate, key, authority } = certificateFiles(join(home, "tls"), "operator");
  return { certFile: certificate, keyFile: key, caFile: authority };
};

test("the default home is used if it exists and nothing else is configured", () => {
  expect(settings({ defaultHome: home })).toEqual({ address: "127.0.0.1:4711", tls: ofHome() });
});

test("the ports of a home come from its file, not from the environment or the defaults", async () => {
  const other = join(root, "other");
  cpSync(home, other, { recursive: true });
  await startedWith(other, { TOKEN_PORT: "4712" });
  const environment = { TOKEN_PORT: "15052" };
  expect(settings({ values: { home: other }, environment }).address).toBe("127.0.0.1:4712");
  expect(settings({ defaultHome: home, environment }).address).toBe("127.0.0.1:4711");
});

test("a home without its ports file is not called on the default ports", () => {
  const silent = join(root, "silent");
  cpSync(home, silent, { recursive: true });
  rmSync(join(silent, "ports.json"));
  const refusal = (pattern: RegExp) =>
    expect.objectContaining({ exitCode: 78, message: expect.stringMatching(pattern) });
  const missing = refusal(/TOKEN_SERVICE_ADDRESS: is required.*silent.*ports\.json/s);
  expect(() => settings({ values: { home: silent } })).toThrow(missing);
  const address = "127.0.0.1:4713";
  expect(settings({ values: { home: silent, "token-service-address": address } }).address).toBe(address);
  for (const text of ["{", "[]", '{"TOKEN_PORT":"4711"}', '{"TOKEN_PORT":0}']) {
    writeFileSync(join(silent, "ports.json"), text);
    expect(() => settings({ values: { home: silent } })).toThrow(
      refusal(/silent.ports\.json contains no valid ports/),
    );
  }
});

test("the environment precedes the default home, and --home the environment", () => {
  expect(settings({ environment: environment(), defaultHome: home })).toEqual({
    address: "token.test:443",
    tls: { certFile: file, keyFile: file, caFile: file },
  });
  expect(settings({ environment: environment(), values: { home } }).tls).toEqual(ofHome());
});

test("single options override everything", () => {
  const values = { home, "token-service-address": "[::1]:1", "tls-ca-file": file };
  expect(settings({ values, environment: environment() })).toEqual({
    address: "[::1]:1",
    tls: { ...ofHome(), caFile: file },
  });
});

test("an incomplete environment is not completed from the default home", () => {
  const { TLS_KEY_FILE: _missing, ...rest } = environment();
  expect(() => settings({ environment: rest, defaultHome: home })).toThrow(
    expect.objectContaining({ exitCode: 78, message: expect.stringContaining("TLS_KEY_FILE: is required") }),
  );
});

test("all missing and invalid values are reported at once", () => {
  const values = { "token-service-address": "nonsense", "tls-cert-file": join(root, "missing.pem") };
  expect(() => settings({ values })).toThrow(
    expect.objectContaining({
      exitCode: 78,
      message: expect.stringMatching(
        /TOKEN_SERVICE_ADDRESS: must be host:port.*TLS_CERT_FILE: .*ENOENT.*TLS_KEY_FILE: is required.*TLS_CA_FILE: is required/s,
      ),
    }),
  );
});

test("a home without certificates is reported with the command that creates them", () => {
  expect(() => settings({ values: { home: join(root, "elsewhere") } })).toThrow(/elsewhere: has `npm start`/);
});
