import type { Sql } from "#kit/database/postgres.ts";

const SETTINGS = [
  "server_version",
  "server_version_num",
  "server_encoding",
  "max_connections",
  "superuser_reserved_connections",
  "reserved_connections",
  "fsync",
  "full_page_writes",
  "synchronous_commit",
  "synchronous_standby_names",
  "default_transaction_isolation",
  "transaction_read_only",
  "jit",
  "statement_timeout",
  "lock_timeout",
  "idle_in_transaction_session_timeout",
  "wal_level",
  "archive_mode",
  "timezone",
  "ssl",
] as const;

type SettingName = (typeof SETTINGS)[number];
/** In this session. Undefined: this version does not have it. Times in milliseconds. */
export type DatabaseSettings = Readonly<Partial<Record<SettingName, string>>>;

export async function readSettings(sql: Sql): Promise<DatabaseSettings> {
  const rows = await sql<{ name: SettingName; setting: string }[]>`
    select lower(name) as name, setting from pg_settings where lower(name) = any(${[...SETTINGS]})`;
  return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
}

export async function readServerClock(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`;
  return row?.now;
}

export interface Connections {
  /** Counts the whole server. */
  open: number;
  /** -1: no limit. */
  ofRole: number;
  ofDatabase: number;
}

export async function readConnections(sql: Sql): Promise<Connections | undefined> {
  const [row] = await sql<Connections[]>`
    select (select sum(numbackends)::int from pg_stat_database) as open,
      (select rolconnlimit from pg_roles where rolname = current_user) as "ofRole",
      (select datconnlimit from pg_database where datname = current_database()) as "ofDatabase"`;
  return row;
}

export interface RoleRights {
  role: string;
  /** What the role itself has: `superuser`, `createrole`. */
  attributes: string[];
  /** Roles with such attributes, with tables of their own, or of PostgreSQL itself, whose rights it has or can take. */
  memberOf: string[];
  /** Tables and the like. */
  owned: number;
  /** Schemas in which it could make tables. */
  createsIn: string[];
  /** Tables that it could empty at once. */
  truncates: string[];
  /** Other databases that it can connect to. */
  connectsTo: string[];
}

export async function readRoleRights(sql: Sql): Promise<RoleRights | undefined> {
  const [row] = await sql<RoleRights[]>`
    with recursive held as (
      select oid from pg_roles where rolname = current_user
      union select m.roleid from pg_auth_members as m join held on held.oid = m.member
    )
    select rolname as role,
      array_remove(array[
        case when rolsuper then 'superuser' end,
        case when rolcreaterole then 'createrole' end,
        case when rolcreatedb then 'createdb' end,
        case when rolreplication then 'replication' end,
        case when rolbypassrls then 'bypassrls' end], null) as attributes,
      array(select g.rolname::text from held join pg_roles as g using (oid) where g.oid <> r.oid
        and (g.rolname ~ '^pg_' or g.rolsuper or g.rolcreaterole or g.rolcreatedb or g.rolreplication or g.rolbypassrls
          or exists (select from pg_class where relowner = g.oid)) order by 1) as "memberOf",
      (select count(*)::int from pg_class where relowner = r.oid and relpersistence <> 't') as owned,
      array(select nspname::text from pg_namespace where has_schema_privilege(oid, 'create')
        and nspname !~ '^pg_(toast_)?temp' order by 1) as "createsIn",
      array(select relname::text from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
        and has_table_privilege(oid, 'truncate') order by 1) as truncates,
      array(select datname::text from pg_database where datname <> current_database() and datallowconn
        and has_database_privilege(oid, 'connect') order by 1) as "connectsTo"
    from pg_roles as r where rolname = current_user`;
  return row;
}

/** Tables of the audit log that this role could change. Only new rows may come. */
export async function readChangeableLog(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace
      and relname ~ '^(log_entries|leaves|subtrees|checkpoints|removals)(_[0-9_]+|_default|_below_[0-9]+)?$'
      and (has_table_privilege(oid, 'delete') or has_table_privilege(oid, 'truncate') or has_any_column_privilege(oid, 'update'))
    order by 1`;
  return rows.map(({ name }) => name);
}
