import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import type { RedisSettings } from "../../service-kit/redis-connection.ts";
import { openSharedRedis, redisScript } from "../../service-kit/shared-redis.ts";
import { createMemoryThrottle } from "./memory-throttle.ts";
import {
  type Admission,
  type CostlyCall,
  type Guess,
  LADDER_MEMORY_MS,
  type Ladder,
  type Refusal,
  refusalOf,
  shareOf,
  type Throttle,
  type ThrottleLimits,
} from "./throttle.ts";
import { type CountedBucket, createCounters } from "./throttle-counters.ts";
import { createTurns, tooLong } from "./turns.ts";

export interface RedisThrottleOptions extends RedisSettings {
  limits: ThrottleLimits;
  /** Names the counters: 32 random bytes, the same in every replica. */
  secret: Buffer;
  /** How many replicas share the limits while they cannot count together. */
  replicas: number;
  /** Milliseconds since the epoch. */
  now: () => number;
  logger: Logger;
  metrics: Metrics;
  /** How long Redis may take for an answer. Default: 150. */
  answerTimeoutMs?: number;
}

/** The braces put all keys into one slot: a script may touch no others, should this be a cluster's only node. */
const KEY_PREFIX = "gatehouse:{throttle}:";
/** Longer than an attempt takes: whoever dies during one keeps the next waiting no longer than this. */
const TURN_LEASE_MS = 3_000;
/** Only the first that waits in each replica asks. */
const TURN_POLL_MS = 20;
/** Accounts whose clearing Redis has not heard of yet. */
const MAX_UNHEARD = 1_000;

/**
 * One script for all three, so that what they share is written once. A bucket is the time at which it will be full
 * again (GCRA); a ladder is its failures `n` and the time `at` from which the next attempt may come.
 */
const SCRIPT = `
local operation, now, memory, buckets = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local day = 86400000
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
-- As ladderMemoryMs.
local function ladder_memory(n, free, wait)
  return math.min(memory, math.max(math.ceil(n / math.max(1, free)) * day, 2 * wait))
end

local first_ladder = buckets + 2
local epoch = KEYS[buckets + 1] and redis.call('GET', KEYS[buckets + 1]) or ''
-- Counts from before the account was cleared do not hold.
local function ladder(key)
  local state = redis.call('HMGET', key, 'n', 'at', 'epoch')
  if (state[3] or '') ~= epoch then return 0, 0 end
  return tonumber(state[1] or '0'), tonumber(state[2] or '0')
end

if operation ~= 'take' then
  for i = 1, buckets do
    local interval = argument()
    argument()
    local full = tonumber(redis.call('GET', KEYS[i]) or '0')
    if full > 0 then redis.call('SET', KEYS[i], text(full - interval), 'KEEPTTL') end
  end
  for i = first_ladder, #KEYS do
    if operation == 'succeed' then
      redis.call('DEL', KEYS[i])
    else
      local free, max, first, longest = argument(), argument(), argument(), argument()
      local n, at = ladder(KEYS[i])
      n = n - 1
      if n <= 0 then
        redis.call('DEL', KEYS[i])
      else
        redis.call('HSET', KEYS[i], 'n', n, 'at', text(math.min(at, now + ladder_wait(n, free, max, first, longest))))
      end
    end
  end
  return { operation }
end

local full, over = {}, { 'refused' }
for i = 1, buckets do
  local interval, window = argument(), argument()
  full[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or '0'), now) + interval
  local wait = full[i] - now - window
  -- The times have three decimals.
  if wait > 0.002 then
    over[#over + 1] = i
    over[#over + 1] = math.ceil(wait)
  end
end
if #over > 1 then return over end
for i = 1, buckets do
  redis.call('SET', KEYS[i], text(full[i]), 'PX', math.ceil(full[i] - now))
end
for i = first_ladder, #KEYS do
  local _, at = ladder(KEYS[i])
  if at > now then return { 'locked' } end
end
local locks = 0
for i = first_ladder, #KEYS do
  local n = ladder(KEYS[i]) + 1
  local free, max, first, longest = argument(), argument(), argument(), argument()
  local wait = ladder_wait(n, free, max, first, longest)
  if wait > 0 then locks = 1 end
  redis.call('HSET', KEYS[i], 'n', n, 'at', text(now + wait), 'epoch', epoch)
  redis.call('PEXPIRE', KEYS[i], ladder_memory(n, free, wait))
end
if epoch ~= '' then redis.call('PEXPIRE', KEYS[buckets + 1], memory) end
return { 'admitted', locks }
`;

/** Ends a turn, unless it is somebody else's by now. */
const END_TURN =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const runScript = redisScript(SCRIPT);

type Operation = "take" | "succeed" | "giveBack";

/**
 * Counts for all replicas together, in Redis. While Redis is away each replica counts by itself, with its share of the
 * limits: never without any. The log has one line when Redis is reached and one when it is lost.
 */
export function createRedisThrottle(options: RedisThrottleOptions): Throttle {
  const { limits, now } = options;
  const counters = createCounters(limits, options.secret);
  const local = createMemoryThrottle({ limits: shareOf(limits, options.replicas), now });
  const turns = createTurns();
  const unheard = new Set<string>();
  const redis = openSharedRedis({
    ...options,
    name: "gatehouse-throttle",
    what: "logins are throttled",
    onAnswer: tellUnheard,
  });

  const count = (operation: Operation, guess: Guess) =>
    redis.ask((client) => run(client, operation, counters.ofGuess(guess), now()));

  function tellUnheard(): void {
    const missed = [...unheard];
    unheard.clear();
    for (const account of missed) void clear(account);
  }

  async function clear(account: string): Promise<void> {
    const cleared = await redis.ask((client) =>
      client.set(KEY_PREFIX + counters.epochOf(account), randomUUID(), "PX", LADDER_MEMORY_MS),
    );
    if (cleared === undefined && unheard.size < MAX_UNHEARD) unheard.add(account);
  }

  /** Waits for other replicas. @returns whether the turn has come. */
  async function lease(key: string, id: string, untilMs: number): Promise<boolean> {
    for (;;) {
      const taken = await redis.ask((client) => client.set(key, id, "PX", TURN_LEASE_MS, "NX"));
      // Without Redis the turns of this replica must do: at worst a right password is counted as a failure.
      if (taken !== null) return true;
      if (performance.now() + TURN_POLL_MS > untilMs) return false;
      await sleep(TURN_POLL_MS);
    }
  }

  options.metrics.gauge(
    "gatehouse_throttle_shared",
    "1 while logins are throttled by all replicas together.",
    [],
    (gauge) => gauge.set(redis.isConnected ? 1 : 0),
  );

  return {
    async turn(guess, waitMs) {
      const untilMs = performance.now() + waitMs;
      const { turn } = counters.ofGuess(guess);
      const done = await turns.take(turn, waitMs);
      const id = randomUUID();
      if (!(await lease(KEY_PREFIX + turn, id, untilMs))) {
        done();
        throw tooLong();
      }
      return () => void redis.ask((client) => client.eval(END_TURN, 1, KEY_PREFIX + turn, id)).finally(done);
    },
    async spend(call: CostlyCall) {
      const buckets = counters.ofCall(call);
      const answer = await redis.ask((client) => run(client, "take", { buckets, ladders: [] }, now()));
      if (answer === undefined) return local.spend(call);
      return refusal(answer, buckets) ?? { kind: "admitted" };
    },
    async take(guess) {
      const answer = await count("take", guess);
      if (answer === undefined) return local.take(guess);
      const [kind, locks] = answer;
      if (kind === "locked") return { kind };
      const admitted: Admission = { kind: "admitted", ...(locks === 1 && { locksIfWrong: true }) };
      return refusal(answer, counters.ofGuess(guess).buckets) ?? admitted;
    },
    async succeed(guess) {
      // In both: the attempt may have been counted before Redis went or came.
      await Promise.all([count("succeed", guess), local.succeed(guess)]);
    },
    async giveBack(guess) {
      await Promise.all([count("giveBack", guess), local.giveBack(guess)]);
    },
    async clear(account) {
      await Promise.all([clear(account), local.clear(account)]);
    },
    async forget(account) {
      const keys = counters.ofAccount(account).map((key) => KEY_PREFIX + key);
      await Promise.all([redis.ask((client) => client.del(...keys)), local.forget(account)]);
    },
    async close() {
      redis.close();
      await local.close();
    },
  };
}

/**
 * What the script says: `admitted` with whether a failure locks; or `refused` with the places
 * of the budgets that are used up and how long each makes wait.
 */
type Answer = [kind: string, ...numbers: number[]];

function refusal([kind, ...over]: Answer, buckets: readonly CountedBucket[]): Refusal | undefined {
  if (kind !== "refused") return undefined;
  const waits = new Map(over.flatMap((place, at) => (at % 2 === 0 ? [[place, over[at + 1] ?? 0]] : [])));
  return refusalOf(
    buckets.flatMap((each, index) => {
      const waitMs = waits.get(index + 1);
      return waitMs === undefined ? [] : [{ ...each, waitMs }];
    }),
  );
}

async function run(
  client: Parameters<typeof runScript>[0],
  operation: Operation,
  counters: {
    buckets: readonly CountedBucket[];
    epoch?: string;
    ladders: readonly { key: string; ladder: Ladder }[];
    cleared?: readonly string[];
  },
  nowMs: number,
): Promise<Answer> {
  const { buckets, epoch, ladders, cleared = [] } = counters;
  const lower = operation === "succeed" ? cleared : ladders.map(({ key }) => key);
  const epochs = epoch === undefined ? [] : [epoch];
  const keys = [...buckets.map(({ key }) => key), ...epochs, ...lower].map((key) => KEY_PREFIX + key);
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
  return (await runScript(client, keys, given)) as Answer;
}
