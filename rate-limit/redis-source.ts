import { redisScript, type SharedRedis } from "../service-kit/shared-redis.ts";
import { type Decision, decide, type LimitedBucket } from "./gcra.ts";
import { LUA_GCRA, LUA_NOW } from "./gcra-lua.ts";

export interface RedisSourceOptions<B extends LimitedBucket> {
  redis: SharedRedis;
  /** The key of a bucket in Redis. */
  keyOf: (bucket: B) => string;
  /** Milliseconds since the epoch. Default: the time of Redis. */
  now?: (() => number) | undefined;
}

/** What to add to a TAT. */
export interface Cost {
  key: string;
  /** Negative: a refund. */
  ms: number;
}

const spendScript = redisScript(`${LUA_NOW}${LUA_GCRA}
return (gcra_spend(#KEYS, 2))
`);

/** One cost for each key. Returns how far each TAT is ahead of now afterwards. */
const addScript = redisScript(`${LUA_NOW}${LUA_GCRA}
local answer = {}
for i = 1, #KEYS do
  local ahead, cost = gcra_ahead(KEYS[i]), tonumber(ARGV[i + 1])
  gcra_move(KEYS[i], ahead, cost)
  answer[i] = exact(math.max(ahead + cost, 0))
end
return answer
`);

/** Buckets in Redis, shared by all replicas. Each method is one atomic step, and returns undefined if Redis gives no answer in time. */
export class RedisSource<B extends LimitedBucket> {
  readonly #redis: SharedRedis;
  readonly #keyOf: (bucket: B) => string;
  readonly #now: (() => number) | undefined;

  constructor({ redis, keyOf, now }: RedisSourceOptions<B>) {
    this.#redis = redis;
    this.#keyOf = keyOf;
    this.#now = now;
  }

  /** Counts a call in all of the buckets, or in none if one has no room. */
  async spend(buckets: readonly B[]): Promise<Decision[] | undefined> {
    const keys = buckets.map(this.#keyOf);
    const answer = await this.#redis.ask((client) =>
      spendScript(client, keys, [this.#now?.() ?? "", ...limitArguments(buckets)]),
    );
    return answer === undefined ? undefined : decisionsOf(buckets, answer as string[]);
  }

  /** Takes back a call that was counted in all of the buckets. */
  async refund(buckets: readonly B[]): Promise<void> {
    await this.add(
      buckets.map((bucket) => ({ key: this.#keyOf(bucket), ms: -bucket.limit.emissionIntervalMs })),
    );
  }

  /**
   * Adds costs, whether there is room or not: of calls that were counted elsewhere.
   *
   * @returns how far each TAT is ahead of now afterwards, in milliseconds.
   */
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

/** What `gcra_spend` needs to know of the buckets. */
export function limitArguments(buckets: readonly LimitedBucket[]): number[] {
  return buckets.flatMap(({ limit }) => [limit.emissionIntervalMs, limit.burstOffsetMs]);
}

/**
 * What a script has decided.
 *
 * @param aheadsMs how far the TAT of each bucket was ahead of now before the call.
 */
export function decisionsOf(buckets: readonly LimitedBucket[], aheadsMs: readonly string[]): Decision[] {
  return buckets.map(({ limit }, index) => decide(limit, Number(aheadsMs[index]), 0));
}
