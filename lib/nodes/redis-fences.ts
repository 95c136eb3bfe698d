// Lua of the scripts of redis-scripts.ts: how a node remembers the tokens that it has accepted.
import { TOKENS_PER_BLOCK } from '../core/fencing.js';
import type { World } from '../core/lock-node.js';
import { sharedKeys } from './redis-script-arguments.js';

/**
 * The fence records, PROTOCOL.md section 8: from a lock's key to its highest token, in one hash for
 * the even periods of R on the node's clock and one for the odd. Both are read, and that of the
 * present period is written: all records of a call are read by two commands and written by one.
 * A field with an empty name says until when a hash is kept: the end of the period after its own.
 * Whoever finds that time past empties the hash, so that a record is kept for at least R. A time
 * far in the future comes from a clock that was wrong. The field has so many digits that Redis
 * makes the hash a table: in a short hash, which is a list, it would go over all fields to find
 * each. If nobody comes again, the ttl ends the hash.
 * `fencesOf`: the highest token on record for each of these locks, or 0. `remember` takes keys and
 * tokens in turn; `fieldsWith` makes such a list for the locks of one owner. A call is for 1,000
 * locks at most, and Lua has room for several times as many arguments as that takes.
 */
export const fencesIn = (world: World): string => {
  const { R, even, odd } = hashesIn(world);
  return `
local function fencesOf(first, last)
  local max, fences = math.max, {}
  local even = redis.call('HMGET', KEYS[${even}], unpack(KEYS, first, last))
  local odd = redis.call('HMGET', KEYS[${odd}], unpack(KEYS, first, last))
  for n = 1, #even do fences[n] = max(even[n] or 0, odd[n] or 0) end
  return fences
end

local function highestRefused(first, last)
  readClock()
  local low = now - skew
  for _, fence in ipairs(fencesOf(first, last)) do low = math.max(low, fence) end
  return low
end

local function fieldsWith(first, last, token)
  local fields = {}
  for i = first, last do
    fields[#fields + 1] = KEYS[i]
    fields[#fields + 1] = token
  end
  return fields
end

local function remember(fields)
  readClock()
  local period = math.floor(now / ${R})
  local hash, ends = KEYS[${even} + period % 2], (period + 2) * ${R}
  local keptUntil = tonumber(redis.call('HMGET', hash, '')[1] or 0)
  if keptUntil <= now then redis.call('UNLINK', hash) end
  if keptUntil < ends or keptUntil > now + ${KEPT_MAX} then
    redis.call('HSET', hash, '', string.format('%065.0f', ends))
    redis.call('PEXPIRE', hash, '${3 * world.fenceRetention}')
  end
  redis.call('HSET', hash, unpack(fields))
end
`;
};

/**
 * The same for one lock, without functions. `isFresh`: the token of these `digits` is above what is
 * on record for `key` and within the clock's window, and the `hash` of the present period is kept
 * for as long as it should be. Then the lock's record is all that remains to be written.
 */
export const freshnessIn = (world: World): string => {
  const { R, even, odd } = hashesIn(world);
  return `
    local period, token = math.floor(now / ${R}), 0 + digits
    local place = ${even} + period % 2
    local hash = KEYS[place]
    local record = redis.pcall('HMGET', hash, key, '')
    local other = redis.pcall('HMGET', KEYS[${even + odd} - place], key)
    local low = math.max(now - skew, record[1] or 0, other[1] or 0)
    local isFresh = not other.err and ${lowestOf('token')} > low
      and token <= now + skew and 0 + (record[2] or 0) == (period + 2) * ${R}
`;
};

/** Lua for the lowest of the tokens that a proposal stands for. */
export const lowestOf = (proposal: string): string =>
  `(${proposal} % ${TOKENS_PER_BLOCK} == ${LAST} and ${proposal} - ${LAST} or ${proposal})`;

/** Where among KEYS the two hashes are, and R in µs. */
function hashesIn(world: World): { R: number; even: number; odd: number } {
  const odd = sharedKeys(world).length;
  return { R: world.fenceRetention * 1_000, even: odd - 1, odd };
}

/** Place of a block's last token, which stands for all of them. */
const LAST = TOKENS_PER_BLOCK - 1;

/** In µs: longer than any client has a hash kept, the longest R being 10 s. */
const KEPT_MAX = 30_000_000;
