import * as argon2 from "@node-rs/argon2";
import type { AccessTable } from "#access-file/access-rules.ts";
import { watchAccessFile } from "#access-file/watch-access-file.ts";
import type { ServiceProcess } from "#kit/process/service-process.ts";
import { redisSettings } from "#kit/redis/redis-settings.ts";
import { assertAccessFits, type Config } from "../config.ts";
import { createMailSender, type MailSender } from "../mail/mail-sender.ts";
import { RelyingPartyTable } from "../oauth/relying-parties.ts";
import { logPlainHttp, watchProvidersFile } from "../oauth/watch-providers-file.ts";
import { type BreachLookup, createBreachLookup } from "../passwords/breach-lookup.ts";
import { createHashQueue } from "../passwords/hash-queue.ts";
import { createPasswordHasher, type PasswordHasher } from "../passwords/password-hasher.ts";
import { createPepper } from "../passwords/stored-hash.ts";
import { watchBreachList } from "../passwords/watch-breach-list.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { shareOf, type Throttle, throttleLimits } from "../throttle/throttle.ts";

// Each makes one part of the process from its configuration. What has to be stopped stops with the process.

const DISCOVERY_INTERVAL_MS = 10 * 60_000;

const now = () => new Date();

/** Milliseconds since the epoch by a clock that never steps: for limits in memory. After the process was suspended it is late. */
export const steadyNow = () => performance.timeOrigin + performance.now();

export function openPasswordHasher(
  { logger, metrics }: ServiceProcess,
  config: Config,
  hashesAtOnce: number,
): PasswordHasher {
  const { PASSWORD_PEPPER_FILE: pepper, PASSWORD_PEPPER_PREVIOUS_FILE: previousPepper } = config;
  return createPasswordHasher({
    argon2,
    parameters: {
      memoryKib: config.ARGON2_MEMORY_KIB,
      iterations: config.ARGON2_ITERATIONS,
      parallelism: config.ARGON2_PARALLELISM,
    },
    pepper: pepper && createPepper(pepper),
    previousPepper: previousPepper && createPepper(previousPepper),
    costKey: config.DEVICE_KEY_FILE.bytes,
    queue: createHashQueue({
      concurrency: hashesAtOnce,
      maxWaiting: config.HASH_QUEUE_MAX,
      maxWaitMs: config.HASH_QUEUE_WAIT_MS,
      now: Date.now,
      metrics,
    }),
    logger,
  });
}

/** Undefined without a server: mails wait in the outbox. */
export function openMailSender(service: ServiceProcess, config: Config): MailSender | undefined {
  const { SMTP_URL: server, MAIL_FROM: from } = config;
  if (server === undefined || from === undefined) {
    service.logger.warn("SMTP_URL is not set: no mail is sent, mails wait in the outbox");
    return undefined;
  }
  const sender = createMailSender({
    server,
    password: config.SMTP_PASSWORD_FILE,
    requireTls: config.SMTP_REQUIRE_TLS,
    caFile: config.SMTP_CA_FILE,
    from,
    logo: config.BRAND_LOGO_FILE,
  });
  return service.run("mail sender", sender);
}

export async function openThrottle(service: ServiceProcess, config: Config): Promise<Throttle> {
  const limits = throttleLimits({
    network: config.THROTTLE_NETWORK_BUDGET,
    everything: config.THROTTLE_GLOBAL_BUDGET,
    callsOfNetwork: config.THROTTLE_CALL_NETWORK_BUDGET,
    calls: config.THROTTLE_CALL_GLOBAL_BUDGET,
    logins: config.THROTTLE_LOGIN_BUDGET,
  });
  const { REDIS_URL: redisUrl, THROTTLE_REPLICAS: replicas } = config;
  const { logger, metrics } = service;
  const throttle =
    redisUrl === undefined
      ? new MemoryThrottle({ limits: shareOf(limits, replicas), now: steadyNow })
      : new (await import("../throttle/redis-throttle.ts")).RedisThrottle({
          ...redisSettings(config, redisUrl),
          limits,
          secret: config.DEVICE_KEY_FILE.bytes,
          replicas,
          now: Date.now,
          localNow: steadyNow,
          logger,
          metrics,
        });
  return service.run("throttle", throttle);
}

/** The providers of the file, which is read again when it changes. An absent provider does not delay the start. */
export function openRelyingParties(
  service: ServiceProcess,
  config: Config,
  pagesOrigin: string,
): RelyingPartyTable {
  const { OAUTH_PROVIDERS_FILE: file, OAUTH_RETURN_TO: returnTo = [] } = config;
  const { logger, metrics } = service;
  const settings = { publicOrigin: pagesOrigin, nowMs: Date.now, logger };
  const table = new RelyingPartyTable(file?.providers ?? [], settings);
  service.run("identity providers", table);
  service.every(DISCOVERY_INTERVAL_MS, "discovery", () => table.refreshAll());
  if (file !== undefined) {
    logPlainHttp(file.providers, logger);
    const watch = { file, table, publicOrigin: pagesOrigin, returnTo, logger, metrics };
    rereadOnHangUp(service.run("providers file", watchProvidersFile(watch)));
  }
  return table;
}

/** The list before the service, which is further away. */
export async function openBreachLookups(service: ServiceProcess, config: Config): Promise<BreachLookup[]> {
  const { BREACH_LIST_FILE: path, BREACH_LOOKUP_URL: url, BREACH_LIST_MAX_AGE_DAYS: maxAgeDays } = config;
  const { logger, metrics } = service;
  const lookups: BreachLookup[] = [];
  if (path !== undefined) {
    const list = await watchBreachList({ path, maxAgeDays, now, logger, metrics });
    lookups.push(service.run("breach list", list));
  }
  if (url !== undefined) lookups.push(createBreachLookup({ url, logger, metrics }));
  return lookups;
}

export function followAccessFile(service: ServiceProcess, config: Config, table: AccessTable): void {
  const { logger, metrics } = service;
  const watch = watchAccessFile({
    ...config.ACCESS_FILE,
    table,
    assertFits: (changed) => assertAccessFits(config, changed),
    logger,
    metrics,
  });
  rereadOnHangUp(service.run("access file", watch));
}

function rereadOnHangUp(watch: { runSoon: () => void }): void {
  process.on("SIGHUP", () => watch.runSoon());
}
