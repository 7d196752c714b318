import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { onOneConnection, type Session, type Sql } from "./postgres.ts";

/** Never change this key: it serializes migrations. */
const ADVISORY_LOCK = 7_031_001;

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

/**
 * One transaction a file. Records without a file are ignored, so that a rolled-back version starts.
 * @returns the files that ran. @throws if a file that ran was changed.
 */
export async function migrate(options: {
  sql: Sql;
  directory: string;
  log?: (message: string) => void;
}): Promise<string[]> {
  const files = await readMigrations(options.directory);
  return onOneConnection(options.sql, async (session) => {
    await session`set statement_timeout = 0`;
    await session`set lock_timeout = '30s'`;
    await session`select pg_advisory_lock(${ADVISORY_LOCK})`;
    try {
      await session`create table if not exists schema_migrations (
        name text primary key, sha256 text not null, ran_at timestamptz not null default now())`;
      const pending = await findPending(session, files);
      for (const file of pending) {
        options.log?.(`migration ${file.name}`);
        await runMigration(session, file);
      }
      return pending.map((file) => file.name);
    } finally {
      await session`select pg_advisory_unlock(${ADVISORY_LOCK})`;
    }
  });
}

async function runMigration(session: Session, file: MigrationFile): Promise<void> {
  await session.unsafe("begin");
  try {
    await session.unsafe(file.text);
    await session`insert into schema_migrations (name, sha256) values (${file.name}, ${file.sha256})`;
    await session.unsafe("commit");
  } catch (error) {
    await session.unsafe("rollback").catch(() => undefined); // The server rolls back a lost connection.
    throw new Error(`migration ${file.name} failed`, { cause: error });
  }
}

/** @throws if a file that ran was changed, or `schema_migrations` is missing. */
export async function pendingMigrations(options: { sql: Sql; directory: string }): Promise<string[]> {
  const pending = await findPending(options.sql, await readMigrations(options.directory));
  return pending.map((file) => file.name);
}

async function findPending(sql: Session, files: MigrationFile[]): Promise<MigrationFile[]> {
  const ran = await sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations`;
  const known = new Map(ran.map((row) => [row.name, row.sha256]));
  for (const file of files) {
    const recorded = known.get(file.name);
    if (recorded !== undefined && recorded !== file.sha256) {
      throw new Error(`${file.name} was changed after it ran; write a new migration instead`);
    }
  }
  return files.filter((file) => !known.has(file.name));
}

interface MigrationFile {
  name: string;
  text: string;
  sha256: string;
}

async function readMigrations(directory: string): Promise<MigrationFile[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  return Promise.all(
    names.map(async (name) => {
      if (!FILE_NAME.test(name)) throw new Error(`${name} is not named NNNN_what_it_does.sql`);
      const text = await readFile(join(directory, name), "utf8");
      return { name, text, sha256: createHash("sha256").update(text).digest("hex") };
    }),
  );
}
