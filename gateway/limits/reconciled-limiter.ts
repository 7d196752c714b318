import { redisScript, type SharedRedis } from "../../service-kit/shared-redis.ts";
import { type Bucket, intervalMs, type Verdict, verdictOf } from "./bucket.ts";
import { type BucketState, BucketTable } from "./bucket-table.ts";
import { LUA_NOW, storedKey } from "./call-limiter.ts";

/** How often gateways tell each other. */
const EXCHANGE_MS = 100;
/** Buckets told of at a time; the others wait their turn. */
const MAX_TOLD = 1_000;

/** Adds what a gateway has let through; answers when each bucket will be empty, in milliseconds from now. */
const addScript = redisScript(`${LUA_NOW}
local debts = {}
for i = 1, #KEYS do
  local debt = math.max(tonumber(redis.call('GET', KEYS[i]) or '0') - now, 0) + tonumber(ARGV[i + 1])
  if debt > 0 then redis.call('SET', KEYS[i], string.format('%.3f', now + debt), 'PX', math.ceil(debt)) end
  debts[i] = string.format('%.3f', debt)
end
return debts
`);

export interface ReconciledLimiterOptions {
  /** Undefined: this gateway is alone with its share. */
  redis: SharedRedis | undefined;
  /** Gateways that share the limits while Redis is away. */
  replicas: number;
  now?: () => number;
  maxEntries?: number;
}

/**
 * Limits calls from memory, without a wait: Redis is told off the path of requests, ten times a second, and tells what
 * the other gateways have let through. What these do not know yet is the overshoot: of one bucket, G gateways let at
 * most G times its calls through at once. Afterwards all of them are counted, so that over time the rate is exact: what
 * was too much is waited for.
 *
 * What could not be told because Redis was away is not told later: while it is away no gateway takes more than its share.
 */
export class ReconciledLimiter {
  readonly #redis: SharedRedis | undefined;
  readonly #replicas: number;
  readonly #now: () => number;
  readonly #table: BucketTable;
  /** Used since, or told of the last time: then it is asked what the others have told meanwhile. */
  readonly #due = new Set<BucketState>();
  readonly #timer: NodeJS.Timeout;
  #isTelling = false;

  constructor({ redis, replicas, now = () => performance.now(), maxEntries }: ReconciledLimiterOptions) {
    this.#redis = redis;
    this.#replicas = replicas;
    this.#now = now;
    this.#table = new BucketTable(maxEntries);
    this.#timer = setInterval(() => void this.exchange(), EXCHANGE_MS);
    this.#timer.unref();
  }

  /** Buckets in memory. */
  get size(): number {
    return this.#table.size;
  }

  /** Counts a call in all of the buckets, or in none if one has no room. */
  take(buckets: readonly Bucket[]): Verdict {
    const isShared = this.#redis?.isConnected === true;
    const replicas = isShared ? 1 : this.#replicas;
    const debtsMs = this.#table.take(buckets, this.#now(), replicas, isShared ? this.#remember : undefined);
    return verdictOf(buckets, debtsMs, replicas);
  }

  /** Tells of what was used and takes in what the others did. One at a time. Never throws. */
  async exchange(): Promise<void> {
    this.#table.sweep(this.#now());
    const redis = this.#redis;
    if (redis === undefined || this.#isTelling || this.#due.size === 0) return;
    this.#isTelling = true;
    const states = [...this.#due].slice(0, MAX_TOLD);
    const spentMs = states.map((state) => {
      const spent = state.untold * intervalMs(state.limit, 1);
      state.untold = 0;
      this.#due.delete(state);
      // At the end of the line: who used it at the same time may be told of after us.
      if (spent > 0) this.#due.add(state);
      return spent;
    });
    const keys = states.map(storedKey);
    const answer = await redis.ask((client) => addScript(client, keys, ["", ...spentMs]));
    this.#isTelling = false;
    if (answer !== undefined) this.#learn(states, answer as string[]);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  readonly #remember = (state: BucketState): void => {
    state.untold += 1;
    if (state.untold === 1) this.#due.add(state);
  };

  /** What was let through meanwhile comes on top. A Redis that has forgotten is not believed. */
  #learn(states: readonly BucketState[], debtsMs: readonly string[]): void {
    const nowMs = this.#now();
    for (const [index, state] of states.entries()) {
      const meanwhileMs = state.untold * intervalMs(state.limit, 1);
      state.emptyAtMs = Math.max(state.emptyAtMs, nowMs + Number(debtsMs[index]) + meanwhileMs);
    }
  }
}
