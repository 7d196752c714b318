import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { openRedis, type RedisSettings } from "../service-kit/redis-connection.ts";
import { createMemoryThrottle } from "./memory-throttle.ts";
import {
  type Admission,
  accountKey,
  countersOf,
  type Guess,
  LADDER_MEMORY_MS,
  shareOf,
  type Throttle,
  type ThrottleLimits,
} from "./throttle.ts";

export interface RedisThrottleOptions extends RedisSettings {
  limits: ThrottleLimits;
  /** How many replicas share the limits while they cannot count together. */
  replicas: number;
  /** Milliseconds since the epoch. */
  now: () => number;
  logger: Logger;
  metrics: Metrics;
}

/** A login has a second in all. */
const ANSWER_TIMEOUT_MS = 150;
/** After an answer that did not come in time, how long Redis is left alone. */
const PAUSE_MS = 1_000;
const KEY_PREFIX = "gatehouse:throttle:";

/**
 * One script for all three, so that what they share is written once. A bucket is the time at which it will be full
 * again (GCRA); a ladder is its failures `n` and the time `at` from which the next attempt may come.
 */
const SCRIPT = `
local operation, now, memory, buckets = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local next_argument = 5
local function argument()
  next_argument = next_argument + 1
  return tonumber(ARGV[next_argument - 1])
end
local function text(number) return string.format('%.3f', number) end
local function ladder_wait(n, free, max, first, longest)
  if n >= max then return 1e15 end
  if n <= free then return 0 end
  return math.min(first * 2 ^ (n - free - 1), longest)
end

if operation ~= 'take' then
  for i = 1, buckets do
    local interval = argument()
    argument()
    local full = tonumber(redis.call('GET', KEYS[i]) or '0')
    if full > 0 then redis.call('SET', KEYS[i], text(full - interval), 'KEEPTTL') end
  end
  for i = buckets + 1, #KEYS do
    if operation == 'succeed' then
      redis.call('DEL', KEYS[i])
    else
      local free, max, first, longest = argument(), argument(), argument(), argument()
      local n = tonumber(redis.call('HGET', KEYS[i], 'n') or '0') - 1
      if n <= 0 then
        redis.call('DEL', KEYS[i])
      else
        local at = tonumber(redis.call('HGET', KEYS[i], 'at'))
        redis.call('HSET', KEYS[i], 'n', n, 'at', text(math.min(at, now + ladder_wait(n, free, max, first, longest))))
      end
    end
  end
  return { operation }
end

local full, wait = {}, 0
for i = 1, buckets do
  local interval, window = argument(), argument()
  full[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or '0'), now) + interval
  wait = math.max(wait, full[i] - now - window)
end
if wait > 0.001 * buckets then return { 'refused', math.ceil(wait) } end
for i = 1, buckets do
  redis.call('SET', KEYS[i], text(full[i]), 'PX', math.ceil(full[i] - now))
end
for i = buckets + 1, #KEYS do
  if tonumber(redis.call('HGET', KEYS[i], 'at') or '0') > now then return { 'locked' } end
end
for i = buckets + 1, #KEYS do
  local n = tonumber(redis.call('HGET', KEYS[i], 'n') or '0') + 1
  local at = now + ladder_wait(n, argument(), argument(), argument(), argument())
  redis.call('HSET', KEYS[i], 'n', n, 'at', text(at))
  redis.call('PEXPIRE', KEYS[i], memory)
end
return { 'admitted' }
`;

const SCRIPT_SHA1 = createHash("sha1").update(SCRIPT).digest("hex");

type Operation = "take" | "succeed" | "giveBack";

/**
 * Counts for all replicas together, in Redis. While Redis is away each replica counts by itself, with its share of the
 * limits: never without any. The log has one line when Redis is reached and one when it is lost.
 */
export function createRedisThrottle(options: RedisThrottleOptions): Throttle {
  const { limits, now, logger } = options;
  const local = createMemoryThrottle({ limits: shareOf(limits, options.replicas), now });
  const redis = openRedis(options, "gatehouse-throttle");
  let known: "nothing" | "connected" | "away" = "nothing";
  let leftAloneUntilMs = 0;
  let isClosed = false;

  function note(works: boolean, error?: unknown): void {
    if (isClosed || known === (works ? "connected" : "away")) return;
    known = works ? "connected" : "away";
    if (works) logger.info("Redis connected: logins are throttled by all replicas together");
    else logger.warn({ err: error }, "Redis away: logins are throttled by each replica for itself");
  }

  /** @returns undefined if Redis has no answer. */
  async function ask(operation: Operation, guess: Guess): Promise<[string, number?] | undefined> {
    if (redis.status !== "ready" || performance.now() < leftAloneUntilMs) return undefined;
    try {
      const answer = await inTime(run(redis, operation, countersOf(limits, guess), now()));
      note(true);
      return answer;
    } catch (error) {
      leftAloneUntilMs = performance.now() + PAUSE_MS;
      note(false, error);
      return undefined;
    }
  }

  redis.on("error", (error) => note(false, error));
  redis.on("close", () => note(false, new Error("the connection was closed")));
  redis.on("ready", () => {
    leftAloneUntilMs = 0;
    note(true);
  });
  redis.connect().catch(() => undefined); // told by the events; tried again by itself
  options.metrics.gauge(
    "gatehouse_throttle_shared",
    "1 while logins are throttled by all replicas together.",
    [],
    (gauge) => gauge.set(known === "connected" ? 1 : 0),
  );

  return {
    async take(guess): Promise<Admission> {
      const [kind, waitMs = 0] = (await ask("take", guess)) ?? [];
      if (kind === "admitted" || kind === "locked") return { kind };
      return kind === "refused" ? { kind, retryAfterMs: waitMs } : local.take(guess);
    },
    async succeed(guess) {
      // In both: the attempt may have been counted before Redis went or came.
      await Promise.all([ask("succeed", guess), local.succeed(guess)]);
    },
    async giveBack(guess) {
      await Promise.all([ask("giveBack", guess), local.giveBack(guess)]);
    },
    async clear(account) {
      await local.clear(account);
      if (redis.status !== "ready") return;
      await inTime(redis.del(KEY_PREFIX + accountKey(account))).catch((error: unknown) => note(false, error));
    },
    async close() {
      isClosed = true;
      redis.disconnect();
      await local.close();
    },
  };
}

/** By its digest; whole if Redis does not know it (any more). */
async function run(
  redis: Redis,
  operation: Operation,
  { buckets, ladders, cleared }: ReturnType<typeof countersOf>,
  nowMs: number,
): Promise<[string, number?]> {
  const lower = operation === "succeed" ? cleared : ladders.map(({ key }) => key);
  const keys = [...buckets.map(({ key }) => key), ...lower].map((key) => KEY_PREFIX + key);
  const numbers = [
    ...buckets.flatMap(({ bucket }) => [bucket.windowMs / bucket.budget, bucket.windowMs]),
    ...ladders.flatMap(({ ladder: { freeFailures, maxFailures, firstWaitMs, maxWaitMs } }) => [
      freeFailures,
      maxFailures,
      firstWaitMs,
      maxWaitMs,
    ]),
  ];
  const given = [operation, nowMs, LADDER_MEMORY_MS, buckets.length, ...numbers];
  try {
    return (await redis.evalsha(SCRIPT_SHA1, keys.length, ...keys, ...given)) as [string, number?];
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith("NOSCRIPT")) throw error;
    return (await redis.eval(SCRIPT, keys.length, ...keys, ...given)) as [string, number?];
  }
}

async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error("no answer in time")), ANSWER_TIMEOUT_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
