import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { apiClient } from "#tests/support/people/api-client.ts";
import { newMachineClient } from "#tests/support/people/machine-client.ts";
import { oneSystem } from "#tests/support/system/one-system.ts";

const EXAMPLES = resolve(import.meta.dirname, "..", "..", "clients", "examples");
const GO = join(EXAMPLES, "client-go");
const PYTHON = join(EXAMPLES, "client-python", "client.py");

/** Without a network: what the machine does not have is not fetched. */
const offline = { ...process.env, GOPROXY: "off", GOFLAGS: "-mod=readonly" };
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "gatehouse-languages-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const run = promisify(execFile);
const machine = () => newMachineClient(apiClient(oneSystem().url));
const canGo = spawnSync("go", ["vet", "."], { cwd: GO, env: offline }).status === 0;
const python = process.env.TEST_PYTHON ?? "python3";
const canPython = spawnSync(python, ["-c", "import authlib, joserfc, requests"]).status === 0;
if (!canGo)
  process.stderr.write(
    "skipped: no Go with golang.org/x/oauth2 (go mod download in clients/examples/client-go)\n",
  );
if (!canPython)
  process.stderr.write(
    "skipped: no Python with clients/examples/client-python/requirements.txt (TEST_PYTHON names one)\n",
  );

test.skipIf(!canGo)("Go's golang.org/x/oauth2 gets a token with client_secret_basic", async () => {
  const client = await machine();
  const { secret } = await client.add({ kind: "secret" });
  const environment = { ...offline, GATEHOUSE_URL: oneSystem().url, CLIENT_ID: client.id };
  const program = join(folder, "client-go");
  await run("go", ["build", "-o", program, "."], { cwd: GO, env: offline });
  const { stdout } = await run(program, { env: { ...environment, CLIENT_SECRET: secret } });
  expect(JSON.parse(stdout)).toHaveProperty("data.payments");
  const refused = run(program, { env: { ...environment, CLIENT_SECRET: "wrong" } });
  await expect(refused).rejects.toMatchObject({ stderr: expect.stringContaining("invalid_client") });
});

test.skipIf(!canPython)("Python's Authlib gets a token with private_key_jwt", async () => {
  const client = await machine();
  const keyFile = join(folder, "client.jwk");
  const made = await run(python, [PYTHON, "new-key", keyFile]);
  await client.add({ kind: "public_key", publicKey: JSON.parse(made.stdout) });
  const environment = { ...process.env, GATEHOUSE_URL: oneSystem().url, CLIENT_ID: client.id };
  const list = () => run(python, [PYTHON], { env: { ...environment, CLIENT_KEY_FILE: keyFile } });
  expect(JSON.parse((await list()).stdout)).toHaveProperty("data.payments");
  await rm(keyFile);
  await run(python, [PYTHON, "new-key", keyFile]);
  await expect(list()).rejects.toMatchObject({ stderr: expect.stringContaining("invalid_client") });
});
