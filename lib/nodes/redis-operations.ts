// Lua of the scripts of redis-scripts.ts: what a node does for one owner. Each operation is a
// function over a slice of KEYS, so that a script may run one of them or many in a loop. They use
// what every script begins with: the world's numbers, `now`, `readClock`, and with fencing
// `fencesOf`, `highestRefused`, `fieldsWith` and `remember` of redis-fences.ts; a release also
// `untold` and `current` of redis-wake-ups.ts.
import { lowestOf } from './redis-fences.js';

export const ACQUIRE = `
local function refusal(token, low)
  local proposed = tonumber(token)
  if ${lowestOf('proposed')} <= low then return 'stale' end
  if proposed > math.max(now + skew, low + 2) then return 'ahead' end
end

local function acquire(first, count, owner, token, ttl)
  local last, owned = first + count - 1, 0
  for i = first, last do
    local holder = redis.call('GET', KEYS[i])
    if holder == owner then
      owned = owned + 1
    elseif holder then
      return 'taken', redis.call('PTTL', KEYS[i]), i - first, holder
    end
  end
  if owned == count then return 'granted' end
  if isFenced then
    local low = highestRefused(first, last)
    local vote = refusal(token, low)
    if vote then return vote, low end
  end
  for i = first, last do redis.call('SET', KEYS[i], owner, 'PX', ttl) end
  if isFenced then remember(fieldsWith(first, last, token)) end
  return 'granted'
end
`;

/**
 * `restore` creates a key that is gone. Memory may be full: then it stays gone, and the vote is
 * the same.
 */
export const EXTEND = `
local function restore(at, owner, token, ttl)
  local answer = redis.pcall('SET', KEYS[at], owner, 'PX', ttl)
  if not isFenced or answer.err then return end
  if tonumber(token) > fencesOf(at, at)[1] then pcall(remember, {KEYS[at], token}) end
end

local function extend(first, count, owner, token, ttl)
  local last, isWhole = first + count - 1, true
  for i = first, last do
    local holder = redis.call('GET', KEYS[i])
    if holder and holder ~= owner then return 'revoked' end
  end
  for i = first, last do
    local left = redis.call('PTTL', KEYS[i])
    if left == -2 then
      isWhole = false
      restore(i, owner, token, ttl)
    elseif left < tonumber(ttl) then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
  end
  return isWhole and 'granted' or 'revoked'
end
`;

/**
 * If all keys were deleted, the acquisition has been here and its token is on record. A key that
 * cannot be read, such as a list in a lock's place, fails the release once the others are free.
 */
export const RELEASE = `
local function release(first, count, owner, token, wakes)
  local last, deleted = first + count - 1, 0
  local odd
  for i = first, last do
    local holder = redis.pcall('GET', KEYS[i])
    if holder == owner then
      deleted = deleted + redis.call('DEL', KEYS[i])
    elseif type(holder) == 'table' then
      odd = holder
    end
  end
  if deleted > 0 and wakes ~= '0' then
    untold[#untold + 1] = {{unpack(KEYS, first, last)}, {current}, wakes}
  end
  if odd or deleted == count or not isFenced then return odd or 'done' end
  local proposed = tonumber(token)
  if highestRefused(first, last) < proposed and proposed <= now + skew then
    pcall(remember, fieldsWith(first, last, token))
  end
  return 'done'
end
`;
