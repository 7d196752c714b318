import { createHash } from "node:crypto";
import { redisScript, type SharedRedis } from "../../service-kit/shared-redis.ts";
import { type Bucket, intervalMs, type Verdict, verdictOf } from "./bucket.ts";
import { BucketTable } from "./bucket-table.ts";
import {
  DEVICE_FILTER,
  FILTERS,
  filterBits,
  GENERATION_MS,
  KnownCallers,
  type LetIn,
  NETWORK_FILTER,
  NEW_DEVICES_A_DAY,
  newDevicesPlace,
} from "./known-callers.ts";

/** Limits calls exactly: of any number at once no more than the limits allow get through. */
export interface CallLimiter {
  /** Counts a call in all of the buckets, or in none if one has no room; as one atomic step. Never throws. */
  take(buckets: readonly Bucket[]): Promise<Verdict>;
  /** Counts in this process only, with its share. */
  takeHere(buckets: readonly Bucket[]): Verdict;
  /** Remembers the network and device of a success. For at least 15 days they are not counted as strangers. Never rejects. */
  remember(letIn: LetIn): Promise<void>;
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
export function createMemoryLimiter(
  { replicas, now, maxEntries }: CallLimiterOptions,
  known = new KnownCallers(replicas),
): CallLimiter {
  const table = new BucketTable(maxEntries);
  const isKnown = (network: string) => known.hasNetwork(network, now());
  const count = (buckets: readonly Bucket[]) =>
    verdictOf(buckets, table.take(buckets, now(), replicas), replicas);
  const takeHere = (buckets: readonly Bucket[]) => {
    const strangers = buckets.find(({ spares }) => spares !== undefined);
    const others = buckets.filter((bucket) => bucket !== strangers && bucket.scope !== "device");
    if (strangers?.spares === undefined || isKnown(strangers.spares)) return count(others);
    const reserve = buckets.find(({ scope, name }) => scope === "device" && known.hasDevice(name, now()));
    if (reserve !== undefined) {
      const verdict = count([...others, reserve]);
      if (verdict.refusedBy === undefined) return verdict;
    }
    return count([...others, strangers]);
  };
  return {
    take: async (buckets) => takeHere(buckets),
    takeHere,
    remember: async (letIn) => void known.add(letIn, now()),
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
const keysOf = (what: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${KEY_PREFIX}${what} ${index}`);
const NETWORK_KEYS = keysOf("filter of networks", FILTERS);
const DEVICE_KEYS = keysOf("filter of devices", FILTERS);
/** One for each of two alternating days. Each expires at the end of its day. */
const NEW_DEVICE_KEYS = keysOf("new devices", 2);

/**
 * `has(key, bit, count)`: whether a name is in the Bloom filter of the current or the previous generation. `key` is the index
 * of the first filter in KEYS; `bit` that of the first of `count` bits in ARGV.
 */
const LUA_HAS = `
local generation = math.floor(now / ${GENERATION_MS})
local function filter_has(key, bit, count)
  for i = bit, bit + count - 1 do
    if redis.call('GETBIT', key, ARGV[i]) == 0 then return false end
  end
  return true
end
local function has(key, bit, count)
  return filter_has(KEYS[key + generation % ${FILTERS}], bit, count)
    or filter_has(KEYS[key + (generation + ${FILTERS - 1}) % ${FILTERS}], bit, count)
end
`;

/**
 * Arguments: the number of buckets; for each bucket its interval and window in milliseconds, and whose calls it counts
 * (`all`, `device`, `strangers`); the bits of the network, then of the device. Keys: the buckets, then the filters of both.
 * Returns for each bucket the milliseconds until it is empty, or -1 if it does not count the call.
 */
const takeScript = redisScript(`${LUA_NOW}${LUA_HAS}
local count = tonumber(ARGV[2])
local key, bit = count + 1, 3 + 3 * count
local is_spared = #KEYS >= key and has(key, bit, ${NETWORK_FILTER.bitsOfName})
local is_device = not is_spared and #KEYS >= key + ${FILTERS}
  and has(key + ${FILTERS}, bit + ${NETWORK_FILTER.bitsOfName}, ${DEVICE_FILTER.bitsOfName})
local debts, has_room = {}, true
for i = 1, count do
  local interval, window, whose = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), ARGV[3 * i + 2]
  local debt = math.max(tonumber(redis.call('GET', KEYS[i]) or '0') - now, 0) + interval
  -- The times have three decimals.
  local is_full = debt - window > 0.002
  if whose == 'device' then
    if is_device and not is_full then is_spared = true else debt = -1 end
  elseif whose == 'strangers' and is_spared then
    debt = -1
  elseif is_full then
    has_room = false
  end
  debts[i] = debt
end
for i = 1, count do
  if has_room and debts[i] >= 0 then
    redis.call('SET', KEYS[i], string.format('%.3f', now + debts[i]), 'PX', math.ceil(debts[i]))
  end
  debts[i] = string.format('%.3f', debts[i])
end
return debts
`);

/**
 * Adds a network to the current filter. Adds a device if the gateway knows it (`known`), if a filter has it, or if its user
 * may have another new device today (then the argument is the index of the user's counter). A filter expires with the
 * generation after its own.
 */
const rememberScript = redisScript(`${LUA_NOW}${LUA_HAS}
local function set(first, bit, count, size)
  local key = KEYS[first + generation % ${FILTERS}]
  -- All of it at once: growing from bit to bit would copy it each time.
  if redis.call('EXISTS', key) == 0 then redis.call('SETBIT', key, size - 1, 0) end
  for i = bit, bit + count - 1 do redis.call('SETBIT', key, ARGV[i], 1) end
  redis.call('PEXPIRE', key, math.ceil((generation + 2) * ${GENERATION_MS} - now))
end
local function admits_new(place)
  local day = math.floor(now / ${DAY_MS})
  local key = KEYS[${1 + 2 * FILTERS} + day % 2]
  if redis.call('BITFIELD', key, 'GET', 'u4', '#' .. place)[1] >= ${NEW_DEVICES_A_DAY} then return false end
  redis.call('BITFIELD', key, 'INCRBY', 'u4', '#' .. place, 1)
  redis.call('PEXPIRE', key, math.ceil((day + 1) * ${DAY_MS} - now))
  return true
end
set(1, 3, ${NETWORK_FILTER.bitsOfName}, ${NETWORK_FILTER.bits})
local key, bit, count = ${1 + FILTERS}, ${3 + NETWORK_FILTER.bitsOfName}, ${DEVICE_FILTER.bitsOfName}
local place = ARGV[2]
if #ARGV >= bit and (place == 'known' or has(key, bit, count) or (place ~= '' and admits_new(place))) then
  set(key, bit, count, ${DEVICE_FILTER.bits})
end
`);

const bitsOfNetwork = (network: string) => filterBits(network, NETWORK_FILTER);
const bitsOfDevice = (key: string) => filterBits(key, DEVICE_FILTER);

/** Counts for all gateways together, in Redis. While that is away each counts by itself, with its share: never without. */
export function createRedisLimiter(
  redis: SharedRedis,
  options: CallLimiterOptions & { redisNow?: () => number },
): CallLimiter {
  const known = new KnownCallers(options.replicas);
  const local = createMemoryLimiter(options, known);
  return {
    async take(buckets) {
      const given = buckets.flatMap(({ limit, scope, spares }) => [
        intervalMs(limit, 1),
        limit.perSeconds * 1_000,
        scope === "device" ? "device" : spares === undefined ? "all" : "strangers",
      ]);
      const network = buckets.find(({ spares }) => spares !== undefined)?.spares;
      const device = buckets.find(({ scope }) => scope === "device")?.name;
      const keys = buckets.map(storedKey);
      if (network !== undefined) {
        keys.push(...NETWORK_KEYS);
        given.push(...bitsOfNetwork(network));
        if (device !== undefined) {
          keys.push(...DEVICE_KEYS);
          given.push(...bitsOfDevice(device));
        }
      }
      const answer = await redis.ask((client) =>
        takeScript(client, keys, [options.redisNow?.() ?? "", buckets.length, ...given]),
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
    async remember(letIn) {
      const { network, device } = letIn;
      // After Redis has lost its data, gateways that know the device add it again.
      const isDeviceKnown = device !== undefined && known.hasDevice(device.key, options.now());
      if (!known.add(letIn, options.now())) return;
      const place = device?.userId === undefined ? "" : newDevicesPlace(device.userId);
      const bits = [...bitsOfNetwork(network), ...(device === undefined ? [] : bitsOfDevice(device.key))];
      await redis.ask((client) =>
        rememberScript(
          client,
          [...NETWORK_KEYS, ...DEVICE_KEYS, ...NEW_DEVICE_KEYS],
          [options.redisNow?.() ?? "", isDeviceKnown ? "known" : place, ...bits],
        ),
      );
    },
    isKnown: local.isKnown,
    takeHere: local.takeHere,
    get size() {
      return local.size;
    },
  };
}
