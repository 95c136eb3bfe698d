// Lua of the scripts of redis-scripts.ts: what a node does for one owner. Each operation is a
// function over a slice of KEYS, so that a script may run one of them or many in a loop. They use
// what every script begins with: the world's numbers, `now`, `readClock`, and with fencing
// `fencesOf`, `highestRefused`, `fieldsWith` and `remember` of redis-fences.ts.
import type { World } from '../core/lock-node.js';
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

/** Lua for the channel on which the release of the lock `key` is told. */
export const channelIn = ({ keyPrefix }: World): string => {
  const length = Buffer.byteLength(keyPrefix);
  // Mostly there is no prefix, and nothing to cut for each lock that is released.
  if (length === 0) return `'redlock:wake:' .. key`;
  return `string.sub(key, 1, ${length}) .. 'redlock:wake:' .. string.sub(key, ${length + 1})`;
};

/** Lua for how many are subscribed to `channel`; 0 for a user without the right to ask. */
export const subscribersOf = (channel: string): string =>
  `(redis.pcall('PUBSUB', 'NUMSUB', ${channel})[2] or 0)`;

/**
 * `wake` tells the processes that listen for these locks, and returns the largest number of them
 * for one lock, without the caller: `wakes` is '2' when the caller itself listens, else '1'. A user
 * without the right to publish is heard by nobody, and the others poll. Whoever listens for any
 * lock is subscribed to the common channel too.
 */
export const wakeUpsIn = (world: World): string => `
local function channelOf(key)
  return ${channelIn(world)}
end

local function commonChannelOf(key)
  return channelOf(string.sub(key, 1, ${Buffer.byteLength(world.keyPrefix)}))
end

local function subscribersOf(channel)
  return ${subscribersOf('channel')}
end

local function tell(channel, subscribed, wakes)
  if subscribed == 0 then return 0 end
  local others = subscribed + 1 - tonumber(wakes)
  redis.pcall('PUBLISH', channel, others)
  return others
end

local function wake(first, last, wakes)
  local most = 0
  for i = first, last do
    local channel = channelOf(KEYS[i])
    most = math.max(most, tell(channel, subscribersOf(channel), wakes))
  end
  return most
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
      odd = KEYS[i]
    end
  end
  local listeners = 0
  if deleted > 0 and wakes ~= '0' then listeners = wake(first, last, wakes) end
  if odd then redis.call('GET', odd) end
  if deleted == count or not isFenced then return 'done', listeners end
  local proposed = tonumber(token)
  if highestRefused(first, last) < proposed and proposed <= now + skew then
    pcall(remember, fieldsWith(first, last, token))
  end
  return 'done', listeners
end
`;
