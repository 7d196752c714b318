import { redisScript } from "#kit/redis/redis-script.ts";
import { LUA_GCRA, LUA_NOW } from "#rate-limit/gcra-lua.ts";
import { LADDER_MEMORY_MS, type Ladder } from "./throttle.ts";

/** A hash of failures `n`, time `at` of the next attempt and account epoch. */
const LUA_LADDER = `
-- As ladderWaitMs.
local function ladder_wait(n, free, max, first, longest)
  if n >= max then return 1e15 end
  if n <= free then return 0 end
  return math.min(first * 2 ^ (n - free - 1), longest)
end
-- As ladderMemoryMs.
local function ladder_memory(n, free, wait)
  local days = math.ceil(n / math.max(1, free))
  return math.min(${LADDER_MEMORY_MS}, math.max(days * 86400000, 2 * wait))
end
local function ladder_numbers(first)
  return tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]), tonumber(ARGV[first + 3])
end
-- Counts from before the account was cleared do not hold.
local function ladder(key, epoch)
  local state = redis.call('HMGET', key, 'n', 'at', 'epoch')
  if (state[3] or '') ~= epoch then return 0, 0 end
  return tonumber(state[1] or '0'), tonumber(state[2] or '0')
end
local function text(number) return string.format('%.3f', number) end
`;

/**
 * KEYS: budgets, epoch, ladders. ARGV: time, number of budgets, `gcra_spend` arguments, ladder parameters. Returns
 * `refused` with the answer of `gcra_spend`, `locked`, or `admitted` with 1 if a failure would lock.
 */
export const takeScript = redisScript(`${LUA_NOW}${LUA_GCRA}${LUA_LADDER}
local budgets = tonumber(ARGV[2])
local aheads, is_allowed = gcra_spend(budgets, 3)
if not is_allowed then return { 'refused', unpack(aheads) } end

local epoch_key, first_ladder = KEYS[budgets + 1], budgets + 2
local epoch = redis.call('GET', epoch_key) or ''
for i = first_ladder, #KEYS do
  local _, at = ladder(KEYS[i], epoch)
  if at > now then return { 'locked' } end
end
local locks = 0
for i = first_ladder, #KEYS do
  local n = ladder(KEYS[i], epoch) + 1
  local free, max, first, longest = ladder_numbers(3 + 2 * budgets + 4 * (i - first_ladder))
  local wait = ladder_wait(n, free, max, first, longest)
  if wait > 0 then locks = 1 end
  redis.call('HSET', KEYS[i], 'n', n, 'at', text(now + wait), 'epoch', epoch)
  redis.call('PEXPIRE', KEYS[i], ladder_memory(n, free, wait))
end
if epoch ~= '' then redis.call('PEXPIRE', epoch_key, ${LADDER_MEMORY_MS}) end
return { 'admitted', locks }
`);

/** KEYS: epoch, ladders. ARGV: time, ladder parameters. */
export const giveBackScript = redisScript(`${LUA_NOW}${LUA_LADDER}
local epoch = redis.call('GET', KEYS[1]) or ''
for i = 2, #KEYS do
  local n, at = ladder(KEYS[i], epoch)
  n = n - 1
  if n <= 0 then
    redis.call('DEL', KEYS[i])
  else
    local wait = ladder_wait(n, ladder_numbers(2 + 4 * (i - 2)))
    redis.call('HSET', KEYS[i], 'n', n, 'at', text(math.min(at, now + wait)))
  end
end
return 'given back'
`);

export function ladderArguments(ladders: readonly { ladder: Ladder }[]): number[] {
  return ladders.flatMap(({ ladder: { freeFailures, maxFailures, firstWaitMs, maxWaitMs } }) => [
    freeFailures,
    maxFailures,
    firstWaitMs,
    maxWaitMs,
  ]);
}
