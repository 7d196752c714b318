import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics, type Metrics } from "#kit/telemetry/metrics.ts";
import type { Repetition } from "#kit/telemetry/repeat.ts";
import { oauthConfig } from "./oauth-config.ts";
import { RelyingPartyTable } from "./relying-parties.ts";
import { watchProvidersFile } from "./watch-providers-file.ts";

let folder: string;
let table: RelyingPartyTable;
let metrics: Metrics;
let watch: Repetition;
const lines: string[] = [];
const logger = createLogger("identity-service", "info", { write: (line) => void lines.push(line) });
const log = () => lines.join("");

/** Of an issuer that needs no discovery. */
function provider(name: string, more = ""): string {
  const at = (path: string) => `https://${name}.example/${path}`;
  const endpoints = `{ authorization: "${at("a")}", token: "${at("t")}", jwks: "${at("k")}" }`;
  return `  - { name: ${name}, issuer: "https://${name}.example", endpoints: ${endpoints}, clientId: c, clientSecretFile: ${name}.secret${more} }\n`;
}

async function write(...providers: string[]): Promise<void> {
  await writeFile(join(folder, "next"), `providers:\n${providers.join("")}`);
  await rename(join(folder, "next"), join(folder, "providers.yaml"));
}

const writeSecret = (name: string, secret: string) =>
  writeFile(join(folder, `${name}.secret`), secret, { mode: 0o600 });

async function start({
  publicOrigin = "https://gatehouse.example",
  returnTo = ["https://app.example/"],
} = {}) {
  const file = oauthConfig.OAUTH_PROVIDERS_FILE.parse(join(folder, "providers.yaml"));
  if (file === undefined) throw new Error("the file was not read");
  table = new RelyingPartyTable(file.providers, { publicOrigin, nowMs: Date.now, logger });
  metrics = createMetrics("identity-service");
  watch = watchProvidersFile({ file, table, publicOrigin, returnTo, logger, metrics, lookEveryMs: 20 });
}

const isRefused = async () =>
  Number(/^gatehouse_providers_file_refused\{[^}]*\} (\d)$/m.exec(await metrics.render())?.[1]);
const names = () => [...table.values()].map(({ name }) => name);

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-providers-"));
  lines.length = 0;
  await writeSecret("first", "secret-of-first");
  await writeSecret("second", "secret-of-second");
  await write(provider("first"));
});

afterEach(async () => {
  await watch.stop();
  await table.close();
  await rm(folder, { recursive: true });
});

test("a provider that is added, changed or removed is so without a restart, and the others stay as they are", async () => {
  await start();
  const first = table.get("first");
  await write(provider("first"), provider("second"));
  await expect.poll(names).toEqual(["first", "second"]);
  expect(table.get("first")).toBe(first);
  const second = table.get("second");
  await write(provider("first"), provider("second", ", displayName: Second Ltd"));
  await expect.poll(() => table.get("second")?.displayName).toBe("Second Ltd");
  expect(table.get("second")).not.toBe(second);
  expect(table.get("first")).toBe(first);
  await write(provider("second"));
  await expect.poll(names).toEqual(["second"]);
  expect(table.get("first")).toBeUndefined();
  expect(await isRefused()).toBe(0);
});

test("a wrong file is refused whole: every problem is in the log with its line, the last good one goes on, a metric says so", async () => {
  await start();
  await write(provider("first"), provider("second", ", clientsecret: oops"), provider("login"));
  await expect.poll(isRefused).toBe(1);
  expect(names()).toEqual(["first"]);
  expect(log()).toContain("line 3, providers.1.clientsecret: is not known");
  expect(log()).toContain("line 4, providers.2.name: is the name of a path under /auth");
  expect(log()).not.toContain("oops");
  await write(provider("first"), provider("second"));
  await expect.poll(names).toEqual(["first", "second"]);
  expect(await isRefused()).toBe(0);
});

test("what a start would refuse is refused: plain HTTP beside https, and no place to send browsers to", async () => {
  const plain = `  - { name: plain, issuer: "http://127.0.0.1:9", clientId: c, clientAuthentication: none }\n`;
  await start();
  await write(provider("first"), plain);
  await expect.poll(isRefused).toBe(1);
  expect(log()).toContain("plain: the issuer must be https, as PUBLIC_ORIGIN is");
  expect(names()).toEqual(["first"]);
  await watch.stop();

  await write();
  await writeFile(join(folder, "providers.yaml"), "providers: []\n");
  await start({ returnTo: [] });
  await write(provider("first"));
  await expect.poll(isRefused).toBe(1);
  expect(log()).toContain("OAUTH_RETURN_TO: is required beside OAUTH_PROVIDERS_FILE");
  expect(names()).toEqual([]);
});

test("a secret that was changed in its own file is used, and one that is open to others is refused", async () => {
  await write(provider("first"), provider("second"));
  await start();
  const [first, second] = [table.get("first"), table.get("second")];
  await writeSecret("second", "another-secret-of-second");
  await expect.poll(() => table.get("second") !== second).toBe(true);
  expect(table.get("first")).toBe(first);
  await rm(join(folder, "second.secret"));
  await writeFile(join(folder, "second.secret"), "third-secret-of-second", { mode: 0o644 });
  await expect.poll(log).toContain("clientSecretFile: the file is open to other users");
  expect(names()).toEqual(["first", "second"]);
  expect(log()).not.toMatch(/secret-of/);
});

test("a secret that comes after the file that names it is found", async () => {
  await start();
  await write(provider("first"), provider("third"));
  await expect.poll(isRefused).toBe(1);
  await writeSecret("third", "secret-of-third");
  await expect.poll(names).toEqual(["first", "third"]);
  expect(await isRefused()).toBe(0);
});

test("a token of security events that was changed in its own file is used", async () => {
  await writeSecret("events", "secret-of-events");
  await write(provider("first", ", securityEvents: { audience: a, tokenFile: events.secret }"));
  await start();
  const first = table.get("first");
  await writeSecret("events", "another-secret-of-events");
  await expect.poll(() => table.get("first") !== first).toBe(true);
});
