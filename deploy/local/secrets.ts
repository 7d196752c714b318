import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Home } from "./home.ts";
import { LaunchError } from "./launch-error.ts";
import { keptSecret, randomPassword, readIfPresent, writePrivateFile } from "./private-file.ts";

/** Keyed by file name. Keys are 32 bytes in base64. */
const SECRETS = {
  "postgres-superuser-password": randomPassword,
  "key-encryption-key": newKey,
  "mfa-encryption-key": newKey,
  "link-key": newKey,
  "device-key": newKey,
  "webhook-encryption-key": newKey,
  "demo-client-secret": randomPassword,
  "checkpoint-key": () =>
    generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString().trim(),
};

type SecretName = keyof typeof SECRETS;

/** Existing data cannot be read without these, so they are created only before it. */
const ESSENTIAL: readonly SecretName[] = [
  "postgres-superuser-password",
  "key-encryption-key",
  "mfa-encryption-key",
];

function newKey(): string {
  return randomBytes(32).toString("base64");
}

export function secretFile(home: Home, name: SecretName): string {
  return join(home.secrets, name);
}

/** Must be called before the database is created. @throws {LaunchError} if an existing database's secret is missing. */
export async function ensureSecrets(home: Home): Promise<void> {
  for (const [name, make] of Object.entries(SECRETS) as [SecretName, () => string][]) {
    const path = secretFile(home, name);
    await keptSecret(path, () => {
      const hasData = existsSync(home.postgres) || existsSync(home.databaseFile);
      if (ESSENTIAL.includes(name) && hasData) throw lost(name, path);
      return make();
    });
  }
}

function lost(name: SecretName, path: string): LaunchError {
  const ifNeverUsed = `. Or, if no user has a second factor yet: openssl rand -base64 32 > ${path}`;
  return new LaunchError(
    `${path} is missing: restore it, or delete all data with \`npm start -- --fresh\`` +
      (name === "mfa-encryption-key" ? ifNeverUsed : "."),
  );
}

export interface FirstAdministrator {
  email: string;
  password: string;
  passwordFile: string;
  /** False once a start has succeeded. Changed settings are then ignored. */
  isFirstStart: boolean;
}

/** Uses the settings, or a random password, until a start has succeeded, and the stored ones afterwards. */
export async function firstAdministrator(
  home: Home,
  { email, password }: { email: string; password: string | undefined },
): Promise<FirstAdministrator> {
  const emailFile = join(home.secrets, "admin-email");
  const passwordFile = join(home.secrets, "admin-password");
  const isFirstStart = (await readIfPresent(home.startedOnceFile)) === undefined;
  if (isFirstStart) {
    await writePrivateFile(emailFile, `${email}\n`);
    if (password !== undefined) await writePrivateFile(passwordFile, `${password}\n`);
  }
  return {
    email: await keptSecret(emailFile, () => email),
    password: await keptSecret(passwordFile, () => password ?? randomPassword()),
    passwordFile,
    isFirstStart,
  };
}
