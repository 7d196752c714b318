import { z } from "zod";
import { ConfigError, databaseConfig, parseConfig } from "#kit/config/config.ts";
import { databaseHosts } from "#kit/config/database-hosts.ts";
import { databasesFileSchema, furtherDatabase, withRoleOf } from "#kit/config/databases-file.ts";
import { causeOfUnavailable } from "#kit/database/database-failure.ts";
import { pendingMigrations } from "#kit/database/migrate.ts";
import { assertSessions, connectPostgres, type Sql } from "#kit/database/postgres.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { isThisHost } from "#kit/values/network-of.ts";
import { type ConfiguredService, migrationsOf } from "../service-configuration.ts";
import { clockFinding, offsetOf } from "./clocks.ts";
import {
  type Connections,
  type DatabaseSettings,
  type RoleRights,
  readChangeableLog,
  readConnections,
  readRoleRights,
  readServerClock,
  readSettings,
} from "./database-store.ts";
import { checking, type Finding, failed, ok, reasonOf, unchecked, warning } from "./finding.ts";
import type { Environment, KnownSystem } from "./known-system.ts";

const TESTED_MAJOR = 18;
/** Other sessions of audit-service. */
const MORE_OF_AUDIT = 5;
/** For people and monitoring: docs/operations/capacity.md. */
const SPARE_CONNECTIONS = 10;
const RUN_MIGRATIONS = "Run the migrations: docs/operations/upgrade.md";
/** SQLSTATE, of `schema_migrations`. */
const UNDEFINED_TABLE = "42P01";
const RIGHTS =
  "Give the role only what the migrations grant: docs/operations/install.md, Databases and roles";

/** A database of a service. */
interface Place {
  service: ConfiguredService;
  /** In findings: the service, and which of its databases. */
  name: string;
  environment: Environment;
  session: Record<string, string>;
}

interface Measured {
  name: string;
  server: string;
  /** What one replica opens. */
  needs: number;
  settings: DatabaseSettings;
  connections: Connections | undefined;
}

/** What each service finds when it connects as it does. */
export async function checkDatabases(known: KnownSystem, now: () => number): Promise<readonly Finding[]> {
  const measured: Measured[] = [];
  const asked = [...known.environments]
    .filter(([, environment]) => environment.DATABASE_URL)
    .map(async ([service, environment]) => {
      const places = placesOf(service, environment);
      if ("found" in places) return [places];
      const each = places.map((place) =>
        checking("database", place.name, () => checkDatabase(place, now, measured)),
      );
      return (await Promise.all(each)).flat();
    });
  const found = (await Promise.all(asked)).flat();
  return [...found, ...connectionFindings(measured)];
}

const further = z.looseObject({ number: z.int(), ...furtherDatabase, schema: z.string().optional() });
const furtherConfig = z.object({
  PARTS_FILE: databasesFileSchema("parts", further),
  LOGS_FILE: databasesFileSchema("logs", further),
});

/** The database of `DATABASE_URL`, then those of further parts of the users, or audit logs. */
function placesOf(service: ConfiguredService, environment: Environment): Place[] | Finding {
  const own = { service, name: service, environment, session: {} };
  try {
    const { PARTS_FILE = [], LOGS_FILE = [] } = parseConfig(furtherConfig, environment);
    const named = [
      ...PARTS_FILE.map((part) => ({ ...part, kind: "part" })),
      ...LOGS_FILE.map((log) => ({ ...log, kind: "log" })),
    ];
    const others = named.map(({ kind, number, url, schema }) => ({
      ...own,
      name: `${service}, ${kind} ${number}`,
      environment: { ...environment, DATABASE_URL: withRoleOf(environment.DATABASE_URL ?? "", url) },
      session: schema === undefined ? {} : { search_path: schema },
    }));
    return [own, ...others];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return unchecked("database", service, problemIn(error));
  }
}

const problemIn = ({ message }: ConfigError) => message.split("\n").slice(1).join(" ").trim();

/** The doctor's other checks keep its process busy meanwhile, on a small machine for seconds. */
const PATIENCE_MS = 8_000;

async function checkDatabase(
  { service, name, environment, session }: Place,
  now: () => number,
  measured: Measured[],
): Promise<Finding[]> {
  let config: ReturnType<typeof parseConfig<z.ZodObject<typeof databaseConfig>>>;
  try {
    config = parseConfig(z.object(databaseConfig), environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [unchecked("database", name, problemIn(error))];
  }
  const hosts = databaseHosts(config.DATABASE_URL) ?? [];
  const server = hosts.map(({ hostname, port, host }) => (port === "" ? `${hostname}:5432` : host)).join(",");
  const sql = connectPostgres(
    { ...config, DATABASE_POOL_SIZE: 1 },
    "doctor",
    createLogger("doctor", "silent"),
    { session: { statement_timeout: PATIENCE_MS, ...session }, connectTimeoutMs: PATIENCE_MS },
  );
  try {
    await assertSessions(sql);
    const clock = await measureClock(sql, `PostgreSQL of ${name}`, now);
    const settings = await readSettings(sql);
    const more = service === "audit-service" ? MORE_OF_AUDIT : 0;
    const needs = config.DATABASE_POOL_SIZE + more;
    measured.push({ name, server, needs, settings, connections: await readConnections(sql) });
    const isOfThisHost = hosts.every(({ hostname }) => isThisHost(hostname));
    return [
      ok("port", `PostgreSQL of ${name}`, `answers at ${server}`),
      versionOf(name, settings),
      clock,
      ...settingFindings(name, settings),
      ...(isOfThisHost ? [] : copyFindings(name, settings)),
      await schemaFinding(name, { sql, directory: migrationsOf(service) }),
      ...roleFindings(name, await readRoleRights(sql), known(environment)),
      ...(service === "audit-service" ? logFindings(name, await readChangeableLog(sql)) : []),
    ];
  } catch (error) {
    if (error instanceof ConfigError) return [failed("database", name, error.message, POOLER)];
    const why = reasonOf(causeOfUnavailable(error) ?? error);
    const action =
      "Start PostgreSQL, or correct DATABASE_URL, the password or the CA: runbooks/GatehouseDatabaseAway.md";
    return [
      failed("port", `PostgreSQL of ${name}`, `${server} cannot be used (${why})`, action),
      unchecked("database", name, `${server} cannot be used`),
    ];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** The names that the databases have by default. */
const known = (environment: Environment) => {
  const [host] = databaseHosts(environment.DATABASE_URL ?? "") ?? [];
  const own = decodeURIComponent(host?.pathname.slice(1) ?? "");
  return ["identity", "token", "audit", "event"].filter((name) => name !== own);
};

async function measureClock(sql: Sql, subject: string, now: () => number): Promise<Finding> {
  await readServerClock(sql); // Opens the connection, which takes time.
  const sentMs = now();
  const read = await readServerClock(sql);
  const receivedMs = now();
  if (read === undefined) return unchecked("clock", subject, "it reports no time");
  return clockFinding(
    subject,
    "this machine",
    offsetOf({ readMs: read.getTime(), resolutionMs: 1, sentMs, receivedMs }),
  );
}

function versionOf(name: string, settings: DatabaseSettings): Finding {
  const major = Math.floor(Number(settings.server_version_num) / 10_000);
  const found = `PostgreSQL ${settings.server_version ?? "of an unknown version"}`;
  if (major >= TESTED_MAJOR) return ok("version", `PostgreSQL of ${name}`, found);
  const action = `Gatehouse is tested with ${TESTED_MAJOR}: upgrade the server`;
  return warning("version", `PostgreSQL of ${name}`, found, action);
}

interface Rule {
  name: keyof DatabaseSettings;
  isRight: (value: string) => boolean;
  /** Why, and what to do. */
  action: string;
}

const isOn = (value: string) => value === "on";
const isLimited = (value: string) => Number(value) > 0;
const POOLER = "Set DATABASE_POOLER=true, and let the pooler pool sessions, not transactions";

/** Whatever is wrong here loses data, or makes an answer wrong. */
const RULES: readonly Rule[] = [
  { name: "fsync", isRight: isOn, action: "Set fsync = on: a crash would lose or damage what was answered" },
  {
    name: "full_page_writes",
    isRight: isOn,
    action: "Set full_page_writes = on: a crash would damage pages",
  },
  {
    name: "synchronous_commit",
    isRight: (value) => value !== "off" && value !== "local",
    action: "Set synchronous_commit = on: a crash or a fail-over would bring ended sessions back",
  },
  {
    name: "default_transaction_isolation",
    isRight: (value) => value === "read committed",
    action: "Set default_transaction_isolation = 'read committed', also for the role and the database",
  },
  {
    name: "transaction_read_only",
    isRight: (value) => value === "off",
    action: "Let DATABASE_URL name the primary, and set default_transaction_read_only = off",
  },
  {
    name: "server_encoding",
    isRight: (value) => value === "UTF8",
    action: "Make the database with encoding UTF8",
  },
  { name: "jit", isRight: (value) => value === "off", action: POOLER },
  { name: "statement_timeout", isRight: isLimited, action: POOLER },
  { name: "lock_timeout", isRight: isLimited, action: POOLER },
  { name: "idle_in_transaction_session_timeout", isRight: isLimited, action: POOLER },
];

function settingFindings(name: string, settings: DatabaseSettings): Finding[] {
  const wrong = RULES.flatMap(({ name: setting, isRight, action }) => {
    const value = settings[setting];
    if (value === undefined) return [unchecked("database", name, `${setting} is not reported`)];
    return isRight(value) ? [] : [failed("database", name, `${setting} is ${value}`, action)];
  });
  if (wrong.length > 0) return wrong;
  const reported = RULES.map(({ name: setting }) => `${setting} ${settings[setting]}`).join(", ");
  return [ok("database", name, `${reported}; time zone ${settings.timezone}`)];
}

/** What a server of its own needs, so that its loss is not the data's. */
function copyFindings(name: string, settings: DatabaseSettings): Finding[] {
  const wrong = [
    {
      isWrong: settings.wal_level === "minimal" || settings.archive_mode === "off",
      found: `wal_level ${settings.wal_level}, archive_mode ${settings.archive_mode}: no continuous back-up`,
      action: "Archive the WAL, unless the provider does it otherwise: docs/operations/backup-and-restore.md",
    },
    {
      isWrong: !settings.synchronous_standby_names,
      found: "synchronous_standby_names is empty: a commit waits for no standby",
      action:
        "Add a synchronous standby, unless the storage itself is replicated: docs/operations/install.md",
    },
  ].filter(({ isWrong }) => isWrong);
  return wrong.map(({ found, action }) => warning("database", name, found, action));
}

async function schemaFinding(name: string, migrations: { sql: Sql; directory: string }): Promise<Finding> {
  try {
    const pending = await pendingMigrations(migrations);
    if (pending.length === 0)
      return ok("database", name, "every migration of this program's version has run");
    return failed("database", name, `not migrated: ${pending.join(", ")}`, RUN_MIGRATIONS);
  } catch (error) {
    if ((error as { code?: unknown }).code === UNDEFINED_TABLE)
      return failed("database", name, "not migrated: no migration has run", RUN_MIGRATIONS);
    const action = "Compare the database with the version that runs: docs/operations/upgrade.md";
    return failed("database", name, `the schema is not this version's (${reasonOf(error)})`, action);
  }
}

function roleFindings(name: string, rights: RoleRights | undefined, others: readonly string[]): Finding[] {
  if (rights === undefined)
    return [unchecked("permission", `role of ${name}`, "the database reports no rights")];
  const { role, attributes, memberOf, owned, createsIn, truncates, connectsTo } = rights;
  const foreign = connectsTo.filter((name) => others.includes(name));
  const tooMuch = [
    ...attributes.map((name) => `is ${name}`),
    ...memberOf.map((name) => `is a member of ${name}`),
    ...(owned > 0 ? [`owns ${owned} tables or the like`] : []),
    ...createsIn.map((name) => `may make tables in ${name}`),
    ...(truncates.length > 0 ? [`may empty ${truncates.join(", ")}`] : []),
    ...foreign.map((name) => `may connect to the database ${name}`),
  ];
  const subject = `role of ${name}`;
  if (tooMuch.length === 0) return [ok("permission", subject, `${role} has no more rights than it needs`)];
  return [failed("permission", subject, `${role} ${tooMuch.join(", ")}`, RIGHTS)];
}

function logFindings(name: string, changeable: readonly string[]): Finding[] {
  const subject = name.replace("audit-service", "audit log");
  if (changeable.length === 0)
    return [ok("permission", subject, "the role may add to it and change nothing")];
  return [failed("permission", subject, `the role may change ${changeable.join(", ")}`, RIGHTS)];
}

/** Services may share a server. */
function connectionFindings(measured: readonly Measured[]): Finding[] {
  return [...Map.groupBy(measured, ({ server }) => server)].flatMap(([server, users]) => {
    const { settings, connections } = users[0] as Measured;
    const number = (setting: keyof DatabaseSettings) => Number(settings[setting] ?? 0);
    const reserved = number("superuser_reserved_connections") + number("reserved_connections");
    const free = number("max_connections") - Math.max(reserved, SPARE_CONNECTIONS);
    const needed = users.reduce((sum, { needs }) => sum + needs, 0);
    const found = `max_connections ${settings.max_connections}; one replica of each service takes ${needed}, ${connections?.open ?? "?"} are open`;
    const action = "Raise max_connections, or lower DATABASE_POOL_SIZE: docs/operations/capacity.md";
    const limited = users.flatMap(({ name, needs, connections: limits }) =>
      [limits?.ofRole ?? -1, limits?.ofDatabase ?? -1]
        .filter((limit) => limit >= 0 && limit < needs)
        .map((limit) =>
          failed(
            "database",
            name,
            `its role or database allows ${limit} connections, it takes ${needs}`,
            action,
          ),
        ),
    );
    if (needed > free) return [failed("database", server, found, action), ...limited];
    if (needed * 2 > free)
      return [warning("database", server, `${found}: too few for a second replica`, action), ...limited];
    return [ok("database", server, found), ...limited];
  });
}
