import { createHash } from "node:crypto";
import { redisScript, type SharedRedis } from "../service-kit/shared-redis.ts";
import { type Bucket, intervalMs, type Verdict, verdictOf } from "./bucket.ts";
import { BucketTable } from "./bucket-table.ts";

/** Limits calls exactly: of any number at once no more than the limits allow get through. */
export interface CallLimiter {
  /** Counts a call in all of the buckets, or in none if one has no room; as one atomic step. Never throws. */
  take(buckets: readonly Bucket[]): Promise<Verdict>;
  /** Counts in this process only, with its share. */
  takeHere(buckets: readonly Bucket[]): Verdict;
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
  const takeHere = (buckets: readonly Bucket[]) =>
    verdictOf(buckets, table.take(buckets, now(), replicas), replicas);
  return {
    take: async (buckets) => takeHere(buckets),
    takeHere,
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

/** Per bucket an interval and a window, in milliseconds; answers when each will be empty, in milliseconds from now. */
const takeScript = redisScript(`${LUA_NOW}
local debts, has_room = {}, true
for i = 1, #KEYS do
  local interval, window = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  debts[i] = math.max(tonumber(redis.call('GET', KEYS[i]) or '0') - now, 0) + interval
  -- The times have three decimals.
  if debts[i] - window > 0.002 then has_room = false end
end
for i = 1, #KEYS do
  if has_room then
    redis.call('SET', KEYS[i], string.format('%.3f', now + debts[i]), 'PX', math.ceil(debts[i]))
  end
  debts[i] = string.format('%.3f', debts[i])
end
return debts
`);

/** Counts for all gateways together, in Redis. While that is away each counts by itself, with its share: never without. */
export function createRedisLimiter(
  redis: SharedRedis,
  options: CallLimiterOptions & { redisNow?: () => number },
): CallLimiter {
  const local = createMemoryLimiter(options);
  return {
    async take(buckets) {
      const given = buckets.flatMap(({ limit }) => [intervalMs(limit, 1), limit.perSeconds * 1_000]);
      const answer = await redis.ask((client) =>
        takeScript(client, buckets.map(storedKey), [options.redisNow?.() ?? "", ...given]),
      );
      return answer === undefined
        ? local.takeHere(buckets)
        : verdictOf(buckets, (answer as string[]).map(Number), 1);
    },
    takeHere: local.takeHere,
    get size() {
      return local.size;
    },
  };
}
