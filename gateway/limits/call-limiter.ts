import { createHash } from "node:crypto";
import { redisScript } from "#kit/redis/redis-script.ts";
import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import { LUA_GCRA, LUA_NOW } from "#rate-limit/gcra-lua.ts";
import { MemorySource } from "#rate-limit/memory-source.ts";
import { decisionsOf, limitArguments } from "#rate-limit/redis-source.ts";
import { type Bucket, sharesOf, type Verdict, verdictOf } from "./bucket.ts";
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

/** Exact: concurrent calls never exceed a limit. */
export interface CallLimiter {
  /** Counts a call in all buckets, or in none if one has no room. Atomic. Never throws. */
  take(buckets: readonly Bucket[]): Promise<Verdict>;
  /** Counts in this process only, with its share. */
  takeHere(buckets: readonly Bucket[]): Verdict;
  /** For at least 15 days the network and device do not count as strangers. Never rejects. */
  remember(letIn: LetIn): Promise<void>;
  /** In this process. */
  isKnown(network: string): boolean;
  readonly size: number;
}

export interface CallLimiterOptions {
  /** Gateways that share the limits while they cannot count together. */
  replicas: number;
  /** Milliseconds, for counts in memory. */
  now: () => number;
  maxEntries?: number;
}

/** Gives each of `replicas` its share of the limits. */
export function createMemoryLimiter(
  { replicas, now, maxEntries }: CallLimiterOptions,
  known = new KnownCallers(replicas),
): CallLimiter {
  const source = new MemorySource(maxEntries);
  const isKnown = (network: string) => known.hasNetwork(network, now());
  const count = (buckets: readonly Bucket[]) =>
    verdictOf(buckets, source.spend(sharesOf(buckets, replicas), now()));
  const takeHere = (buckets: readonly Bucket[]) => {
    const strangers = buckets.find(({ exemptNetwork }) => exemptNetwork !== undefined);
    const others = buckets.filter((bucket) => bucket !== strangers && bucket.scope !== "device");
    if (strangers?.exemptNetwork === undefined || isKnown(strangers.exemptNetwork)) return count(others);
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
      return source.size;
    },
  };
}

/** The braces put all keys into one slot, which scripts in a cluster need. */
const KEY_PREFIX = "gatehouse:{limits}:";

/** Addresses become digests. */
export function storedKey({ kind, name, scope }: Pick<Bucket, "kind" | "name" | "scope">): string {
  const stored =
    scope === "address" ? createHash("sha256").update(name).digest("base64url").slice(0, 22) : name;
  return `${KEY_PREFIX}${kind} ${stored}`;
}

const DAY_MS = 86_400_000;
const keysOf = (what: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${KEY_PREFIX}${what} ${index}`);
const NETWORK_KEYS = keysOf("filter of networks", FILTERS);
const DEVICE_KEYS = keysOf("filter of devices", FILTERS);
/** For two alternating days. Each expires at the end of its day. */
const NEW_DEVICE_KEYS = keysOf("new devices", 2);

/**
 * `has(key, bit, count)`: whether a name is in the filter of the current or the previous generation. `key` is
 * the index of the first filter in KEYS; `bit` that of the first of `count` bits in ARGV.
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
 * Arguments: the number of buckets; the emission interval and burst offset of each; whose calls each counts
 * (`all`, `device`, `strangers`); the bits of the network, then of the device. Keys: the buckets, then the
 * filters of both. Returns for each bucket how far its TAT was ahead of now, or -1 if it does not count the
 * call.
 */
const takeScript = redisScript(`${LUA_NOW}${LUA_GCRA}${LUA_HAS}
local count = tonumber(ARGV[2])
local key, bit = count + 1, 3 + 3 * count
local is_exempt = #KEYS >= key and has(key, bit, ${NETWORK_FILTER.bitsOfName})
local is_device = not is_exempt and #KEYS >= key + ${FILTERS}
  and has(key + ${FILTERS}, bit + ${NETWORK_FILTER.bitsOfName}, ${DEVICE_FILTER.bitsOfName})
local aheads, intervals, has_room = {}, {}, true
for i = 1, count do
  local whose = ARGV[2 + 2 * count + i]
  local ahead, interval = gcra_ahead(KEYS[i]), tonumber(ARGV[2 * i + 1])
  local is_allowed = gcra_allows(ahead, interval, tonumber(ARGV[2 * i + 2]))
  if whose == 'device' then
    if is_device and is_allowed then is_exempt = true else ahead = -1 end
  elseif whose == 'strangers' and is_exempt then
    ahead = -1
  elseif not is_allowed then
    has_room = false
  end
  aheads[i], intervals[i] = ahead, interval
end
for i = 1, count do
  if has_room and aheads[i] >= 0 then gcra_move(KEYS[i], aheads[i], intervals[i]) end
  aheads[i] = exact(aheads[i])
end
return aheads
`);

/**
 * Adds a network, and a device if the gateway knows it (`known`), a filter has it, or its user may have another
 * new device today (then the argument is the index of the user's counter). A filter expires with the generation
 * after its own.
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

function whoseCalls({ scope, exemptNetwork }: Bucket): string {
  if (scope === "device") return "device";
  return exemptNetwork === undefined ? "all" : "strangers";
}

/** Counts for all gateways together. Without Redis each counts by itself, with its share. */
export function createRedisLimiter(
  redis: SharedRedis,
  options: CallLimiterOptions & { redisNow?: () => number },
): CallLimiter {
  const known = new KnownCallers(options.replicas);
  const local = createMemoryLimiter(options, known);
  return {
    async take(buckets) {
      const keys = buckets.map(storedKey);
      const given = [...limitArguments(buckets), ...buckets.map(whoseCalls)];
      const network = buckets.find(({ exemptNetwork }) => exemptNetwork !== undefined)?.exemptNetwork;
      const device = buckets.find(({ scope }) => scope === "device")?.name;
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
      const aheadsMs = answer as string[];
      const doesCount = (_: unknown, index: number) => Number(aheadsMs[index]) >= 0;
      const counted = buckets.filter(doesCount);
      return verdictOf(counted, decisionsOf(counted, aheadsMs.filter(doesCount)));
    },
    async remember(letIn) {
      const { network, device } = letIn;
      // Restores a known device after Redis has lost its data.
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
