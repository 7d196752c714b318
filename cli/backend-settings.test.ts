import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificateFiles } from "../deploy/local/certificates.ts";
import { settingsSchema } from "../deploy/local/settings.ts";
import { backendSettings, type SettingsSources } from "./backend-settings.ts";

let root: string;
let home: string;
let file: string;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "gatehouse-cli-"));
  home = join(root, "home");
  mkdirSync(join(home, "tls"), { recursive: true });
  for (const path of Object.values(certificateFiles(join(home, "tls"), "operator")))
    writeFileSync(path, "PEM", { mode: 0o600 });
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

test("what npm start has made is used if it is there and nothing else was said", () => {
  const port = settingsSchema.parse({}).TOKEN_PORT;
  expect(settings({ defaultHome: home })).toEqual({ address: `127.0.0.1:${port}`, tls: ofHome() });
});

test("a local port that was moved is followed", () => {
  expect(settings({ defaultHome: home, environment: { TOKEN_PORT: "4711" } }).address).toBe("127.0.0.1:4711");
});

test("the environment goes before the default home, --home before the environment", () => {
  expect(settings({ environment: environment(), defaultHome: home })).toEqual({
    address: "token.test:443",
    tls: { certFile: file, keyFile: file, caFile: file },
  });
  expect(settings({ environment: environment(), values: { home } }).tls).toEqual(ofHome());
});

test("single options go before everything", () => {
  const values = { home, "token-service-address": "[::1]:1", "tls-ca-file": file };
  expect(settings({ values, environment: environment() })).toEqual({
    address: "[::1]:1",
    tls: { ...ofHome(), caFile: file },
  });
});

test("a half-set environment is not filled from the default home", () => {
  const { TLS_KEY_FILE: _missing, ...rest } = environment();
  expect(() => settings({ environment: rest, defaultHome: home })).toThrow(
    expect.objectContaining({ exitCode: 78, message: expect.stringContaining("TLS_KEY_FILE: is required") }),
  );
});

test("everything that is missing or wrong is named at once", () => {
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

test("a home without certificates is named, with what makes them", () => {
  expect(() => settings({ values: { home: join(root, "elsewhere") } })).toThrow(/elsewhere: has `npm start`/);
});
