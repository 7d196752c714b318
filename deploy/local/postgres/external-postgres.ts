import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import type { Sql } from "#kit/database/postgres.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import { SERVICE_DATABASES } from "../../service-databases.ts";
import type { Home } from "../home.ts";
import { errorText, LaunchError } from "../launch-error.ts";
import { readIfPresent, writePrivateFile } from "../private-file.ts";
import type { Settings } from "../settings.ts";
import type { PostgresServer } from "./embedded-postgres.ts";
import { connectTo } from "./ensure-database.ts";

const TESTED_VERSION = 18;

const recordSchema = z.object({ host: z.string(), port: z.int() });

type External = Pick<
  Settings,
  | "GATEHOUSE_POSTGRES_URL"
  | "GATEHOUSE_POSTGRES_PASSWORD_FILE"
  | "GATEHOUSE_POSTGRES_CA_FILE"
  | "GATEHOUSE_PLAINTEXT"
>;

/** Undefined without a URL. @throws {LaunchError} 78 for a server whose traffic anybody could read. */
export function externalServer(settings: External): PostgresServer | undefined {
  if (settings.GATEHOUSE_POSTGRES_URL === undefined) return undefined;
  const url = new URL(settings.GATEHOUSE_POSTGRES_URL);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const passwordFile = settings.GATEHOUSE_POSTGRES_PASSWORD_FILE;
  const caFile = settings.GATEHOUSE_POSTGRES_CA_FILE;
  if (caFile === undefined && !isThisHost(host) && settings.GATEHOUSE_PLAINTEXT !== "true") {
    throw new LaunchError(
      "GATEHOUSE_POSTGRES_URL names another host: set GATEHOUSE_POSTGRES_CA_FILE, or GATEHOUSE_PLAINTEXT=true.",
      { exitCode: 78 },
    );
  }
  return {
    host,
    port: Number(url.port || 5432),
    username: decodeURIComponent(url.username) || "postgres",
    password: passwordFile ? readSecret(passwordFile) : decodeURIComponent(url.password),
    ...(url.pathname.length > 1 && { database: decodeURIComponent(url.pathname.slice(1)) }),
    ...(caFile !== undefined && { caFile }),
  };
}

function readSecret(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new LaunchError(`${file} cannot be read: ${errorText(error)}`, { exitCode: 78, cause: error });
  }
}

/**
 * Whether the server may be provisioned for this home. Afterwards the home remembers the server, so that neither data is
 * left behind unnoticed nor another installation's roles get new passwords.
 * @returns a note about the server's version. @throws {LaunchError}
 */
export async function adoptServer(home: Home, server: PostgresServer): Promise<string | undefined> {
  const admin = connectTo(server, server.database ?? "postgres");
  try {
    const rights = await rightsOn(admin, server);
    const record = await readRecord(home);
    if (record === undefined) {
      const taken = await takenNames(admin);
      if (taken.length > 0) {
        throw new LaunchError(
          `PostgreSQL at ${nameOf(server)} has ${taken.join(", ")} already, and not from this home: start the home that ` +
            "made them, or drop them first.",
        );
      }
      const { host, port } = server;
      await writePrivateFile(home.databaseFile, `${JSON.stringify({ host, port })}\n`);
    }
    return rights.major < TESTED_VERSION
      ? `PostgreSQL at ${nameOf(server)} is version ${rights.major}; Gatehouse is tested with ${TESTED_VERSION}.`
      : undefined;
  } finally {
    await admin.end({ timeout: 1 });
  }
}

/** @throws {LaunchError} if the home's data is elsewhere. */
export async function requireSameServer(home: Home, server: PostgresServer | undefined): Promise<void> {
  const record = await readRecord(home);
  if (server === undefined) {
    if (record === undefined) return;
    throw new LaunchError(
      `The data of ${home.path} is in PostgreSQL at ${nameOf(record)}: start with --postgres <url>, or write ` +
        `GATEHOUSE_POSTGRES_URL=<url> into ${home.settingsFile}.`,
    );
  }
  if (existsSync(home.postgres)) {
    throw new LaunchError(
      `The data of ${home.path} is in its own PostgreSQL: set GATEHOUSE_HOME to another folder, or start with --fresh once.`,
    );
  }
  if (record === undefined || (record.host === server.host && record.port === server.port)) return;
  throw new LaunchError(
    `The data of ${home.path} is in PostgreSQL at ${nameOf(record)}, not at ${nameOf(server)}. If it was moved, correct ` +
      `${home.databaseFile}.`,
  );
}

/** `--fresh` deletes what `npm start` runs itself, and nothing on a server of others. @throws {LaunchError} */
export async function refuseFresh(home: Home): Promise<void> {
  const record = await readRecord(home);
  if (record === undefined) return;
  const databases = SERVICE_DATABASES.map(({ database }) => `drop database ${database};`);
  const roles = SERVICE_DATABASES.flatMap((wanted) => [wanted.serviceRole, wanted.ownerRole]);
  throw new LaunchError(
    `--fresh deletes no databases at ${nameOf(record)}. Execute there, then remove ${home.databaseFile}:\n` +
      `${databases.join(" ")} drop role ${roles.join(", ")};`,
  );
}

const nameOf = ({ host, port }: { host: string; port: number }) => `${host}:${port}`;

interface Rights {
  major: number;
}

/** @throws {LaunchError} naming each right that is missing, and the statement that grants it. */
async function rightsOn(admin: Sql, server: PostgresServer): Promise<Rights> {
  const [row] = await admin<{ role: string; missing: string[]; version: number }[]>`
    select rolname as role, current_setting('server_version_num')::int as version, array_remove(array[
      case when not (rolsuper or rolcreaterole) then 'createrole' end,
      case when not (rolsuper or rolcreatedb) then 'createdb' end], null) as missing
    from pg_roles where rolname = current_user`.catch((error: unknown) => {
    throw new LaunchError(
      `PostgreSQL at ${nameOf(server)} cannot be used as ${server.username}: ${errorText(error)}. Check ` +
        "GATEHOUSE_POSTGRES_URL and its password.",
      { cause: error },
    );
  });
  const { role = "", missing = [], version = 0 } = row ?? {};
  if (missing.length === 0) return { major: Math.floor(version / 10_000) };
  throw new LaunchError(
    `The role ${role} at ${nameOf(server)} may not make roles and databases. As a superuser: ` +
      `alter role "${role}" ${missing.join(" ")};`,
  );
}

/** Databases and roles of some other Gatehouse. */
async function takenNames(admin: Sql): Promise<string[]> {
  const databases = SERVICE_DATABASES.map(({ database }) => database);
  const roles = SERVICE_DATABASES.flatMap(({ ownerRole, serviceRole }) => [ownerRole, serviceRole]);
  const rows = await admin<{ name: string }[]>`
    select 'the database ' || datname as name from pg_database where datname = any(${databases})
    union all select 'the role ' || rolname from pg_roles where rolname = any(${roles})`;
  return rows.map(({ name }) => name);
}

async function readRecord(home: Home): Promise<z.infer<typeof recordSchema> | undefined> {
  const text = await readIfPresent(home.databaseFile);
  if (text === undefined) return undefined;
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new LaunchError(`${home.databaseFile} is damaged: it must be {"host":"…","port":5432}.`, {
      cause: error,
    });
  }
}
