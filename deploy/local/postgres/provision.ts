import { join } from "node:path";
import { keptSecret, randomPassword } from "../private-file.ts";
import { SERVICE_DATABASES, type ServiceDatabase } from "../service-databases.ts";
import type { PostgresServer } from "./embedded-postgres.ts";
import { connectTo, ensureDatabase, ensureRoles, type RolePasswords } from "./ensure-database.ts";

/** What provisioning needs to know. */
export interface ProvisionOptions {
  server: PostgresServer;
  /** Folder of the password files; missing ones are made. */
  secrets: string;
  /** The repository's folder, with `<service>/migrations` in it. */
  root: string;
}

/**
 * Brings a server of our own to what the services need: their databases, roles and newest schemas. Data stays; the
 * roles' passwords become what the files say.
 *
 * @throws if a migration fails.
 */
export async function provision({ server, secrets, root }: ProvisionOptions): Promise<void> {
  const admin = connectTo(server, "postgres");
  try {
    await admin.unsafe("revoke all on database postgres from public");
    await admin.unsafe("revoke all on database template1 from public");
    await Promise.all(
      SERVICE_DATABASES.map(async (wanted) => {
        const passwords = await keptPasswords(secrets, wanted);
        await ensureRoles(admin, wanted, passwords);
        const goal = { admin, server, wanted, root, name: wanted.database, ownerPassword: passwords.owner };
        await ensureDatabase(goal);
      }),
    );
  } finally {
    await admin.end({ timeout: 1 });
  }
}

/** The file with the password a service connects with. */
export function servicePasswordFile(secrets: string, { database }: ServiceDatabase): string {
  return join(secrets, `db-${database}-password`);
}

async function keptPasswords(secrets: string, wanted: ServiceDatabase): Promise<RolePasswords> {
  const [owner, service] = await Promise.all([
    keptSecret(join(secrets, `db-${wanted.database}-owner-password`), randomPassword),
    keptSecret(servicePasswordFile(secrets, wanted), randomPassword),
  ]);
  return { owner, service };
}
