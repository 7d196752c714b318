import { createHash } from "node:crypto";
import { redisScript, type SharedRedis } from "../service-kit/shared-redis.ts";
import { type Bucket, intervalMs, type Verdict, verdictOf } from "./bucket.ts";
import { BucketTable } from "./bucket-table.ts";
import { FILTERS, filterBits, KnownNetworks } from "./known-networks.ts";

/** Limits calls exactly: of any number at once no more than the limits allow get through. */
export interface CallLimiter {
  /** Counts a call in all of the buckets, or in none if one has no room; as one atomic step. Never throws. */
  take(buckets: readonly Bucket[]): Promise<Verdict>;
  /** Counts in this process only, with its share. */
  takeHere(buckets: readonly Bucket[]): Verdict;
  /** Somebody was let in from this network: for a day at least, buckets that spare it do not count it. Never rejects. */
  remember(network: string): Promise<void>;
  /** Whether a network is remembered in this process. */
  isKnown(network: string): boolean;
  /** Buckets in memory. */
  readonly size: number;
}

export interface CallLimiterOptions {
  /** Gateways that share the limits while they cannot count together. */
  replicas: number;
  /** Milliseconds, for what is counted in memory. */
  now: () => number;
  maxEntries?: number;
}

/** Gives each of `replicas` its share of the limits. Forgets everything with its process. */
export function createMemoryLimiter({ replicas, now, maxEntries }: CallLimiterOptions): CallLimiter {
  const table = new BucketTable(maxEntries);
  const networks = new KnownNetworks();
  const isKnown = (network: string) => networks.has(network, now());
  const takeHere = (buckets: readonly Bucket[]) => {
    const counted = buckets.filter(({ spares }) => spares === undefined || !isKnown(spares));
    return verdictOf(counted, table.take(counted, now(), replicas), replicas);
  };
  return {
    take: async (buckets) => takeHere(buckets),
    takeHere,
    remember: async (network) => void networks.add(network, now()),
    isKnown,
    get size() {
      return table.size;
    },
  };
}

/** The braces put all keys into one slot: a script may touch no others, should this be a cluster's only node. */
const KEY_PREFIX = "gatehouse:{limits}:";

/** The name of a bucket in Redis. Addresses are digests there. */
export function storedKey({ kind, name, scope }: Pick<Bucket, "kind" | "name" | "scope">): string {
  const stored =
    scope === "address" ? createHash("sha256").update(name).digest("base64url").slice(0, 22) : name;
  return `${KEY_PREFIX}${kind} ${stored}`;
}

/** Begins a script: the time is Redis's own, the same for every gateway, unless a test gives one. */
export const LUA_NOW = `
local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or time[1] * 1000 + time[2] / 1000
`;

const DAY_MS = 86_400_000;
const FILTER_KEYS = Array.from({ length: FILTERS }, (_, index) => `${KEY_PREFIX}known networks ${index}`);

/**
 * Given how many buckets there are, per bucket an interval and a window in milliseconds and whether it spares a known
 * network, then that network's bits in the filters, whose keys come last. Answers when each bucket will be empty, in
 * milliseconds from now, or -1 for one that does not count the call.
 */
const takeScript = redisScript(`${LUA_NOW}
local count = tonumber(ARGV[2])
local function has(key)
  for i = 3 + 3 * count, #ARGV do
    if redis.call('GETBIT', key, ARGV[i]) == 0 then return false end
  end
  return true
end
local is_known = false
if #KEYS > count then
  local day = math.floor(now / ${DAY_MS})
  local first = count + 1
  is_known = has(KEYS[first + day % ${FILTERS}]) or has(KEYS[first + (day + ${FILTERS - 1}) % ${FILTERS}])
end
local debts, has_room = {}, true
for i = 1, count do
  local interval, window, spares = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  if is_known and spares == '1' then
    debts[i] = -1
  else
    debts[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or '0') - now, 0) + interval
    -- The times have three decimals.
    if debts[i] - window > 0.002 then has_room = false end
  end
end
for i = 1, count do
  if has_room and debts[i] >= 0 then
    redis.call('SET', KEYS[i], string.format('%.3f', now + debts[i]), 'PX', math.ceil(debts[i]))
  end
  debts[i] = string.format('%.3f', debts[i])
end
return debts
`);

/** Sets a network's bits in the filter of the day. The filter of the day before yesterday has expired by tomorrow. */
const rememberScript = redisScript(`${LUA_NOW}
local key = KEYS[1 + math.floor(now / ${DAY_MS}) % ${FILTERS}]
for i = 2, #ARGV do redis.call('SETBIT', key, ARGV[i], 1) end
redis.call('PEXPIRE', key, ${2 * DAY_MS})
`);

/** Counts for all gateways together, in Redis. While that is away each counts by itself, with its share: never without. */
export function createRedisLimiter(
  redis: SharedRedis,
  options: CallLimiterOptions & { redisNow?: () => number },
): CallLimiter {
  const local = createMemoryLimiter(options);
  /** When Redis was told of each. */
  const networks = new KnownNetworks();
  return {
    async take(buckets) {
      const given = buckets.flatMap(({ limit, spares }) => [
        intervalMs(limit, 1),
        limit.perSeconds * 1_000,
        spares === undefined ? 0 : 1,
      ]);
      const network = buckets.find(({ spares }) => spares !== undefined)?.spares;
      const keys = [...buckets.map(storedKey), ...(network === undefined ? [] : FILTER_KEYS)];
      const bits = network === undefined ? [] : filterBits(network);
      const answer = await redis.ask((client) =>
        takeScript(client, keys, [options.redisNow?.() ?? "", buckets.length, ...given, ...bits]),
      );
      if (answer === undefined) return local.takeHere(buckets);
      const debtsMs = (answer as string[]).map(Number);
      const counted = buckets.filter((_, index) => (debtsMs[index] ?? 0) >= 0);
      return verdictOf(
        counted,
        debtsMs.filter((debtMs) => debtMs >= 0),
        1,
      );
    },
    async remember(network) {
      if (!networks.add(network, options.now())) return;
      await local.remember(network);
      await redis.ask((client) =>
        rememberScript(client, FILTER_KEYS, [options.redisNow?.() ?? "", ...filterBits(network)]),
      );
    },
    isKnown: local.isKnown,
    takeHere: local.takeHere,
    get size() {
      return local.size;
    },
  };
}
