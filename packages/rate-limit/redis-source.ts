import { redisScript } from "#kit/redis/redis-script.ts";
import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import { type Decision, decide, type LimitedBucket } from "./gcra.ts";
import { LUA_GCRA, LUA_NOW } from "./gcra-lua.ts";

export interface RedisSourceOptions<B extends LimitedBucket> {
  redis: SharedRedis;
  keyOf: (bucket: B) => string;
  /** Milliseconds since the epoch. Defaults to the time of Redis. */
  now?: (() => number) | undefined;
}

export interface Cost {
  key: string;
  /** Added to the TAT. Negative for a refund. */
  ms: number;
}

const spendScript = redisScript(`${LUA_NOW}${LUA_GCRA}
return (gcra_spend(#KEYS, 2))
`);

const addScript = redisScript(`${LUA_NOW}${LUA_GCRA}
local answer = {}
for i = 1, #KEYS do
  local ahead, cost = gcra_ahead(KEYS[i]), tonumber(ARGV[i + 1])
  gcra_move(KEYS[i], ahead, cost)
  answer[i] = exact(math.max(ahead + cost, 0))
end
return answer
`);

/** Buckets shared by all replicas. Methods are atomic, and return undefined without an answer in time. */
export class RedisSource<B extends LimitedBucket> {
  readonly #redis: SharedRedis;
  readonly #keyOf: (bucket: B) => string;
  readonly #now: (() => number) | undefined;

  constructor({ redis, keyOf, now }: RedisSourceOptions<B>) {
    this.#redis = redis;
    this.#keyOf = keyOf;
    this.#now = now;
  }

  /** Counts a call in all buckets, or in none if one has no room. */
  async spend(buckets: readonly B[]): Promise<Decision[] | undefined> {
    const keys = buckets.map(this.#keyOf);
    const answer = await this.#redis.ask((client) =>
      spendScript(client, keys, [this.#now?.() ?? "", ...limitArguments(buckets)]),
    );
    return answer === undefined ? undefined : decisionsOf(buckets, answer as string[]);
  }

  async refund(buckets: readonly B[]): Promise<void> {
    await this.add(
      buckets.map((bucket) => ({ key: this.#keyOf(bucket), ms: -bucket.limit.emissionIntervalMs })),
    );
  }

  /** Has no limit. @returns how far each TAT is ahead of now afterwards, in milliseconds. */
  async add(costs: readonly Cost[]): Promise<number[] | undefined> {
    if (costs.length === 0) return [];
    const answer = await this.#redis.ask((client) =>
      addScript(
        client,
        costs.map(({ key }) => key),
        [this.#now?.() ?? "", ...costs.map(({ ms }) => ms)],
      ),
    );
    return (answer as string[] | undefined)?.map(Number);
  }
}

export function limitArguments(buckets: readonly LimitedBucket[]): number[] {
  return buckets.flatMap(({ limit }) => [limit.emissionIntervalMs, limit.burstOffsetMs]);
}

/** @param aheadsMs how far each TAT was ahead of now before the call. */
export function decisionsOf(buckets: readonly LimitedBucket[], aheadsMs: readonly string[]): Decision[] {
  return buckets.map(({ limit }, index) => decide(limit, Number(aheadsMs[index]), 0));
}
