import { ROUNDING_MS } from "./gcra.ts";

/** Defines `now` in milliseconds: the first argument, or Redis's time if it is empty. */
export const LUA_NOW = `
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + time[2] / 1000
end
`;

/**
 * `decide` for scripts, with the same operations for equal results. A key holds its TAT and expires with it.
 */
export const LUA_GCRA = `
-- A double without loss.
local function exact(number) return string.format('%.17g', number) end

-- How far the TAT of a bucket is ahead of now.
local function gcra_ahead(key)
  return math.max(tonumber(redis.call('GET', key) or '0') - now, 0)
end

local function gcra_allows(ahead, emission_interval, burst_offset)
  return ahead + emission_interval - burst_offset <= ${ROUNDING_MS}
end

-- Moves a TAT that is ahead of now by a cost, or back by a negative one.
local function gcra_move(key, ahead, cost)
  local reset_in = ahead + cost
  if reset_in <= 0 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, exact(now + reset_in), 'PX', math.ceil(reset_in))
  end
end

-- Counts a call in the first \`count\` keys, or in none if one has no room. Their emission intervals and burst offsets are
-- arguments from \`first\` on. Returns how far each TAT was ahead before, and whether the call is counted.
local function gcra_spend(count, first)
  local aheads, answer, is_allowed = {}, {}, true
  for i = 1, count do
    local at = first + 2 * (i - 1)
    aheads[i] = gcra_ahead(KEYS[i])
    answer[i] = exact(aheads[i])
    is_allowed = is_allowed and gcra_allows(aheads[i], tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
  end
  for i = 1, is_allowed and count or 0 do
    gcra_move(KEYS[i], aheads[i], tonumber(ARGV[first + 2 * (i - 1)]))
  end
  return answer, is_allowed
end
`;
