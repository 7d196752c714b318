import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { randomPassword } from "#deploy/local/private-file.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import {
  type Calls,
  call,
  demand,
  emailOf,
  identityPeer,
  missingFile,
  passwordHash,
} from "./identity-support.ts";
import { INSTALLED } from "./peer.ts";

const FILES = join(import.meta.dirname, "kratos");
const PROGRAM = join(INSTALLED, "bin", "kratos");
const MIGRATE_MS = 120_000;

export const KRATOS = identityPeer({
  name: "Kratos",
  does: "a login is two calls (flow, password), each session read from PostgreSQL; no limits, no refresh, no log",
  missing: () => missingFile("kratos", "bin", "kratos"),
  database: "kratos",
  async program({ folder, port, database }) {
    const config = configFile(folder);
    await writeConfig(config, { public: port, admin: await freePort() }, database.url);
    const env = { SQA_OPT_OUT: "true" }; // It sends no statistics.
    await promisify(execFile)(
      PROGRAM,
      ["migrate", "sql", "up", "--read-from-env", "--yes", "--config", config],
      {
        env,
        timeout: MIGRATE_MS,
      },
    );
    return { command: PROGRAM, args: ["serve", "--config", config], env };
  },
  async createAccounts({ folder, users }) {
    const { serve } = JSON.parse(await readFile(configFile(folder), "utf8"));
    await createAccounts(`http://127.0.0.1:${serve.admin.port}/admin/identities`, users);
  },
  calls: callsOf,
});

const configFile = (folder: string) => join(folder, "kratos.json");

async function writeConfig(file: string, ports: { public: number; admin: number }, databaseUrl: string) {
  const common = JSON.parse(await readFile(join(FILES, "kratos.json"), "utf8"));
  const listener = (port: number) => ({ host: "127.0.0.1", port, base_url: `http://127.0.0.1:${port}/` });
  const whole = {
    ...common,
    dsn: `${databaseUrl}?sslmode=disable&max_conns=10&max_idle_conns=10`,
    serve: { public: listener(ports.public), admin: listener(ports.admin) },
    identity: {
      default_schema_id: "bench",
      schemas: [{ id: "bench", url: pathToFileURL(join(FILES, "identity.schema.json")).href }],
    },
    secrets: { cookie: [randomPassword()], cipher: [randomPassword().slice(0, 32)] },
  };
  await writeFile(file, JSON.stringify(whole), { mode: 0o600 });
}

async function createAccounts(url: string, users: number): Promise<void> {
  const { phc } = await passwordHash();
  for (let user = 0; user < users; user += 1) {
    const answer = await call(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        schema_id: "bench",
        traits: { email: emailOf(user) },
        credentials: { password: { config: { hashed_password: phc } } },
      }),
    });
    demand(answer.status === 201, "Kratos creates an account", answer);
  }
}

function callsOf(url: string): Calls {
  const sessions = new Map<number, string>();
  return {
    async login(user, password) {
      const flow = await call(`${url}/self-service/login/api`);
      demand(flow.status === 200, "login flow", flow);
      const answer = await call(`${url}/self-service/login?flow=${flow.json.id}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ method: "password", identifier: emailOf(user), password }),
      });
      // 4000006: the credentials are invalid.
      if (answer.status === 400 && answer.json.ui?.messages?.[0]?.id === 4_000_006) return false;
      demand(answer.status === 200 && answer.json.session_token !== undefined, "login", answer);
      sessions.set(user, answer.json.session_token);
      return true;
    },
    async check(user) {
      const answer = await call(`${url}/sessions/whoami`, {
        headers: { "x-session-token": sessions.get(user) ?? "" },
      });
      demand(answer.status === 200 && answer.json.identity.traits.email === emailOf(user), "whoami", answer);
    },
  };
}
