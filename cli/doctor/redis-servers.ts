import { z } from "zod";
import { ConfigError, parseConfig, redisConfig } from "#kit/config/config.ts";
import { redisAddressText } from "#kit/config/redis-url.ts";
import { openRedis, watchPrimary } from "#kit/redis/redis-connection.ts";
import { redisSettings } from "#kit/redis/redis-settings.ts";
import { clockFinding, offsetOf } from "./clocks.ts";
import { checking, type Finding, failed, ok, reasonOf, unchecked, warning } from "./finding.ts";
import type { Environment, KnownSystem } from "./known-system.ts";

type Connection = ReturnType<typeof openRedis>;

const NEARLY_FULL = 0.9;
const AWAY =
  "Start Redis, or correct REDIS_URL, the password or the CA: docs/operations/runbooks/GatehouseRedisAway.md";

/** Each server that a service names, as the first of them connects to it. */
export async function checkRedisServers(known: KnownSystem, now: () => number): Promise<readonly Finding[]> {
  if (known.environments.size === 0) return [];
  const named = [...known.environments].filter(([, environment]) => environment.REDIS_URL);
  if (named.length === 0) {
    return [ok("redis", "all services", "REDIS_URL is not set: each replica counts by itself")];
  }
  const servers = Map.groupBy(named, ([, environment]) => environment.REDIS_URL);
  const asked = [...servers.values()].map((users) => {
    const [[, environment]] = users as [(typeof users)[number]];
    const subject = `Redis of ${users.map(([service]) => service).join(", ")}`;
    return checking("redis", subject, () => checkServer(subject, environment, now));
  });
  return (await Promise.all(asked)).flat();
}

async function checkServer(subject: string, environment: Environment, now: () => number): Promise<Finding[]> {
  let config: ReturnType<typeof parseConfig<z.ZodObject<typeof redisConfig>>>;
  try {
    config = parseConfig(z.object(redisConfig), environment);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [unchecked("redis", subject, error.message.split("\n").slice(1).join(" ").trim())];
  }
  const { REDIS_URL: url = "" } = config;
  const settings = redisSettings(config, url);
  const where = redisAddressText(url);
  const watch = watchPrimary(settings, "doctor");
  const redis = openRedis(settings, "doctor", watch);
  let problem: unknown;
  redis.on("error", (error) => {
    problem ??= error;
  });
  try {
    await redis.connect();
    const clock = await measureClock(redis, subject, now);
    return [ok("port", subject, `answers at ${where}`), clock, ...(await readState(redis, subject))];
  } catch (error) {
    const why = reasonOf(problem ?? error);
    return [
      failed("port", subject, `${where} cannot be used (${why})`, AWAY),
      unchecked("redis", subject, "it does not answer"),
    ];
  } finally {
    redis.disconnect();
    watch?.close();
  }
}

async function measureClock(redis: Connection, subject: string, now: () => number): Promise<Finding> {
  try {
    const sentMs = now();
    const [seconds, microseconds] = await redis.time();
    const readMs = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
    const reading = { readMs, resolutionMs: 1, sentMs, receivedMs: now() };
    return clockFinding(subject, "this machine", offsetOf(reading));
  } catch (error) {
    return unchecked("clock", subject, reasonOf(error));
  }
}

async function readState(redis: Connection, subject: string): Promise<Finding[]> {
  try {
    const text = await redis.info();
    const fields = [...text.matchAll(/^([a-z_]+):(.*?)\r?$/gm)].map(([, name = "", value = ""]) => [
      name,
      value,
    ]);
    return stateFindings(subject, Object.fromEntries(fields) as Info);
  } catch (error) {
    // A narrow ACL.
    return [
      unchecked(
        "redis",
        subject,
        `INFO: ${reasonOf(error)}`,
        "Let the user call INFO, or ask as another one",
      ),
    ];
  }
}

type Info = Readonly<Record<string, string | undefined>>;

function stateFindings(subject: string, info: Info): Finding[] {
  const { redis_version: version, redis_mode: mode, role, maxmemory_policy: policy } = info;
  const wrong: Finding[] = [];
  const refuse = (found: string, action: string) => wrong.push(failed("redis", subject, found, action));
  if (mode === "cluster")
    refuse("it is a node of a Redis Cluster", "Use one server, or a primary behind one name");
  if (role === "slave") refuse("it is a replica, which takes no writes", "Let REDIS_URL name the primary");
  if (policy !== "noeviction") {
    refuse(`maxmemory-policy ${policy}: a proof could be used twice`, "Set maxmemory-policy noeviction");
  }
  // With `stop-writes-on-bgsave-error` every write is refused then.
  if (info.rdb_last_bgsave_status === "err" || info.aof_last_write_status === "err") {
    refuse("it cannot write to its disk, and may refuse commands", "Free its disk, or turn persistence off");
  }
  const [used, limit] = [Number(info.used_memory ?? 0), Number(info.maxmemory ?? 0)];
  if (limit > 0 && used > limit * NEARLY_FULL) {
    const found = `${used} of ${limit} bytes are used: new counts are refused when it is full`;
    wrong.push(warning("redis", subject, found, "Raise maxmemory"));
  }
  const isKept = info.aof_enabled === "1" || Number(info.rdb_changes_since_last_save ?? 0) > 0;
  const persistence =
    info.aof_enabled === "1" ? "append-only file" : isKept ? "snapshots, if any" : "nothing to save";
  const program = ok("version", subject, `${info.server_name ?? "redis"} ${info.valkey_version ?? version}`);
  if (wrong.length > 0) return [program, ...wrong];
  const found = `${mode}, ${role}, maxmemory-policy ${policy}, persistence: ${persistence} (none is needed)`;
  return [program, ok("redis", subject, found)];
}
