import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { randomPassword } from "#deploy/local/private-file.ts";
import { FLOOR } from "../support/identity.ts";
import {
  type Calls,
  call,
  demand,
  emailOf,
  identityPeer,
  missingFile,
  passwordHash,
} from "./identity-support.ts";
import { type IdentityPeer, INSTALLED } from "./peer.ts";

const ADMIN = "bench-admin";
const MIN_JAVA = 17;

const readRealm = (file: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, "keycloak", file), "utf8"));
const REALM = readRealm("realm.json");
const STRICT = readRealm("realm-strict.json");

export const KEYCLOAK: readonly IdentityPeer[] = [
  keycloak("Keycloak", "default realm: refresh tokens are not rotated, no events are stored", REALM),
  keycloak("Keycloak, strict", "rotation, brute force protection, and events stored in PostgreSQL", {
    ...REALM,
    ...STRICT,
  }),
];

function keycloak(name: string, does: string, realm: object): IdentityPeer {
  const adminPassword = randomPassword();
  return identityPeer({
    name,
    does,
    missing,
    database: "keycloak",
    async program({ port, database }) {
      return {
        command: join(INSTALLED, "keycloak", "bin", "kc.sh"),
        args: [
          ...["start", "--optimized", "--cache=local", "--http-enabled=true", "--http-host=127.0.0.1"],
          ...[`--http-port=${port}`, "--hostname-strict=false"],
          `--db-url=jdbc:postgresql://127.0.0.1:${database.port}/keycloak`,
          `--spi-password-hashing--argon2--memory=${FLOOR.memoryKib}`,
          `--spi-password-hashing--argon2--iterations=${FLOOR.iterations}`,
          `--spi-password-hashing--argon2--parallelism=${FLOOR.parallelism}`,
        ],
        env: {
          KC_DB_USERNAME: database.username,
          KC_DB_PASSWORD: database.password,
          KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN,
          KC_BOOTSTRAP_ADMIN_PASSWORD: adminPassword,
        },
      };
    },
    createAccounts: async ({ url, users }) =>
      createRealm(url, adminPassword, { ...realm, users: await accounts(users) }),
    calls: (url) => callsOf(`${url}/realms/bench/protocol/openid-connect`),
  });
}

function missing(): string | undefined {
  const { stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  const version = Number(/version "(\d+)/.exec(stderr ?? "")?.[1] ?? 0);
  if (version < MIN_JAVA) return `needs Java ${MIN_JAVA} or newer`;
  return missingFile("keycloak", "keycloak", "built");
}

async function accounts(users: number) {
  const { salt, digest } = await passwordHash();
  const credential = {
    type: "password",
    secretData: JSON.stringify({ value: digest.toString("base64"), salt: salt.toString("base64") }),
    credentialData: JSON.stringify({
      algorithm: "argon2",
      hashIterations: FLOOR.iterations,
      additionalParameters: {
        type: ["id"],
        version: ["1.3"],
        hashLength: [String(digest.length)],
        memory: [String(FLOOR.memoryKib)],
        parallelism: [String(FLOOR.parallelism)],
      },
    }),
  };
  return Array.from({ length: users }, (_, user) => ({
    username: emailOf(user),
    email: emailOf(user),
    emailVerified: true,
    firstName: "Ada",
    lastName: "Lovelace",
    enabled: true,
    credentials: [credential],
  }));
}

async function createRealm(url: string, password: string, realm: object): Promise<void> {
  const token = await call(`${url}/realms/master/protocol/openid-connect/token`, {
    method: "POST",
    body: new URLSearchParams({ grant_type: "password", client_id: "admin-cli", username: ADMIN, password }),
  });
  demand(token.status === 200, "Keycloak's administrator logs in", token);
  const created = await call(`${url}/admin/realms`, {
    method: "POST",
    headers: { authorization: `Bearer ${token.json.access_token}`, "content-type": "application/json" },
    body: JSON.stringify(realm),
  });
  demand(created.status === 201, "Keycloak creates the realm", created);
}

function callsOf(endpoint: string): Calls {
  const sessions = new Map<number, { access_token: string; refresh_token: string }>();
  const client = { client_id: "bench", client_secret: "bench-client-secret" };
  const post = (path: string, form: Record<string, string>) =>
    call(`${endpoint}/${path}`, { method: "POST", body: new URLSearchParams({ ...client, ...form }) });
  const tokens = (user: number) => sessions.get(user) ?? { access_token: "", refresh_token: "" };
  return {
    async login(user, password) {
      const form = { grant_type: "password", scope: "openid", username: emailOf(user), password };
      const answer = await post("token", form);
      if (answer.status === 401 && answer.json.error === "invalid_grant") return false;
      demand(answer.status === 200 && answer.json.refresh_token !== undefined, "login", answer);
      sessions.set(user, answer.json);
      return true;
    },
    async refresh(user) {
      const form = { grant_type: "refresh_token", refresh_token: tokens(user).refresh_token };
      const answer = await post("token", form);
      demand(answer.status === 200 && answer.json.refresh_token !== undefined, "refresh", answer);
      sessions.set(user, answer.json);
    },
    async check(user) {
      const answer = await post("token/introspect", { token: tokens(user).access_token });
      demand(answer.json?.active === true && answer.json.username === emailOf(user), "introspection", answer);
    },
    async me(user) {
      const headers = { authorization: `Bearer ${tokens(user).access_token}` };
      const answer = await call(`${endpoint}/userinfo`, { headers });
      demand(answer.status === 200 && answer.json.email === emailOf(user), "userinfo", answer);
    },
  };
}
