import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { assertSessions, onOneConnection, type Session, type Sql } from "./postgres.ts";

/** Never change this key: it serializes migrations. */
const ADVISORY_LOCK = 7_031_001;

const MAX_WAIT_MS = 30_000;
const RETRY_MS = 100;

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;
/** First line of a file for statements that a transaction cannot hold, such as `create index concurrently`. */
const WITHOUT_TRANSACTION = "-- without a transaction\n";

/**
 * One transaction a file. Records without a file are ignored, so that a rolled-back version starts.
 *
 * A file that begins with `-- without a transaction` runs statement by statement, and after a failure again from its
 * beginning: each statement must be repeatable. An index that was not finished stays and is invalid, so drop it first.
 * @returns the files that ran. @throws if a file that ran was changed, or the first one did not run but others did.
 */
export async function migrate(options: {
  sql: Sql;
  directory: string;
  log?: (message: string) => void;
}): Promise<string[]> {
  const files = await readMigrations(options.directory);
  await assertSessions(options.sql);
  return onOneConnection(options.sql, async (session) => {
    await session`set statement_timeout = 0`;
    await session`set lock_timeout = '30s'`;
    await lock(session);
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

/** Asks again and again: a statement that waits would be waited for by `create index concurrently`. */
async function lock(session: Session): Promise<void> {
  for (let waitedMs = 0; waitedMs <= MAX_WAIT_MS; waitedMs += RETRY_MS) {
    const [row] = await session<{ isLocked: boolean }[]>`
      select pg_try_advisory_lock(${ADVISORY_LOCK}) as "isLocked"`;
    if (row?.isLocked === true) return;
    await setTimeout(RETRY_MS);
  }
  throw new Error("another migration of this database is running");
}

async function runMigration(session: Session, file: MigrationFile): Promise<void> {
  try {
    if (file.text.startsWith(WITHOUT_TRANSACTION)) await runStatements(session, file);
    else await runInTransaction(session, file);
  } catch (error) {
    throw new Error(`migration ${file.name} failed`, { cause: error });
  }
}

async function runInTransaction(session: Session, file: MigrationFile): Promise<void> {
  await session.unsafe("begin");
  try {
    await session.unsafe(file.text);
    await record(session, file);
    await session.unsafe("commit");
  } catch (error) {
    await session.unsafe("rollback").catch(() => undefined); // The server rolls back a lost connection.
    throw error;
  }
}

/** Several statements in one query would be one transaction. */
async function runStatements(session: Session, file: MigrationFile): Promise<void> {
  // Nobody waits behind a statement that runs concurrently, and it waits for every transaction that began before.
  await session`set lock_timeout = 0`;
  for (const statement of file.text.split(/;\s*$/m)) {
    if (statement.trim() !== "") await session.unsafe(statement);
  }
  await session`set lock_timeout = '30s'`;
  await record(session, file);
}

async function record(session: Session, { name, sha256 }: MigrationFile): Promise<void> {
  await session`insert into schema_migrations (name, sha256) values (${name}, ${sha256})`;
}

/** @throws as `migrate` does, or if `schema_migrations` is missing. */
export async function pendingMigrations(options: { sql: Sql; directory: string }): Promise<string[]> {
  const pending = await findPending(options.sql, await readMigrations(options.directory));
  return pending.map((file) => file.name);
}

const OF_BEFORE_0_1_0 =
  "this database was made by a commit before version 0.1.0, which has other tables: export its users, and import them into a new " +
  "database (docs/migrate/README.md, From a commit of Gatehouse before 0.1.0)";

/** Version 0.1.0 begins with tables of its own. */
export class OlderDatabaseError extends Error {
  override readonly name = "OlderDatabaseError";

  constructor() {
    super(OF_BEFORE_0_1_0);
  }
}

async function findPending(sql: Session, files: MigrationFile[]): Promise<MigrationFile[]> {
  const ran = await sql<{ name: string; sha256: string }[]>`select name, sha256 from schema_migrations`;
  const known = new Map(ran.map((row) => [row.name, row.sha256]));
  if (known.size > 0 && files[0] !== undefined && !known.has(files[0].name)) throw new OlderDatabaseError();
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
