import { generateKeyPairSync, randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Home } from "./home.ts";
import { LaunchError } from "./launch-error.ts";
import { keptSecret, randomPassword, readIfPresent, writePrivateFile } from "./private-file.ts";

/** How each secret is made, by the name of its file. Keys are 32 bytes as base64, the signing key is Ed25519 as PEM. */
const SECRETS = {
  "postgres-superuser-password": randomPassword,
  "key-encryption-key": newKey,
  "mfa-encryption-key": newKey,
  "link-key": newKey,
  "device-key": newKey,
  "demo-client-secret": randomPassword,
  "checkpoint-key": () =>
    generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString().trim(),
};

type SecretName = keyof typeof SECRETS;

/** Without these the data that is there cannot be read: made only where there is no data yet. */
const ESSENTIAL: readonly SecretName[] = [
  "postgres-superuser-password",
  "key-encryption-key",
  "mfa-encryption-key",
];

function newKey(): string {
  return randomBytes(32).toString("base64");
}

/** The file of a secret. */
export function secretFile(home: Home, name: SecretName): string {
  return join(home.secrets, name);
}

/**
 * Makes the secrets that are missing. Call it before the database is made, so that one without them means that they
 * were lost.
 *
 * @throws {LaunchError} if one is missing that the database there needs.
 */
export async function ensureSecrets(home: Home): Promise<void> {
  for (const [name, make] of Object.entries(SECRETS) as [SecretName, () => string][]) {
    const path = secretFile(home, name);
    await keptSecret(path, () => {
      if (ESSENTIAL.includes(name) && existsSync(home.postgres)) throw lost(name, path);
      return make();
    });
  }
}

function lost(name: SecretName, path: string): LaunchError {
  const ifNeverUsed = `. Or, if nobody has set up a second factor yet: openssl rand -base64 32 > ${path}`;
  return new LaunchError(
    `${path} is missing: put it back, or start anew with \`npm start -- --fresh\`` +
      (name === "mfa-encryption-key" ? ifNeverUsed : "."),
  );
}

/** The administrator that the first start makes. */
export interface FirstAdministrator {
  email: string;
  password: string;
  passwordFile: string;
  /** False once everything was up with this administrator: changed settings no longer count. */
  isFirstStart: boolean;
}

/**
 * The first administrator's login: what the settings say, or a random password, until the first start has succeeded;
 * after that what was kept then.
 */
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
