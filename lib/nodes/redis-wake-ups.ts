// Lua of the scripts of redis-scripts.ts: who is told of a release. PROTOCOL.md section 10.
import type { World } from '../core/lock-node.js';

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
 * A release notes in `untold` what it has deleted: the keys; where in the answer who released them
 * has a place, one for each or for all (`current`: of the operation that runs); and `wakes`, which
 * is '2' when the caller itself listens, else '1'.
 * `tellOfReleases` comes last, and tells the processes that listen, except for what the same call
 * has locked again: they would try in vain. It leaves in `told`, by place, the largest number of
 * them for one lock, without the caller. A user without the right to publish is heard by nobody,
 * and the others poll.
 * Whoever listens for any lock is subscribed to the common channel too: where nobody is, nobody
 * waits for any of the locks.
 */
export const wakeUpsIn = (world: World): string => `
local untold, told, current = {}, {}, 1

local function channelOf(key)
  return ${channelIn(world)}
end

local function tell(keys, places, wakes)
  local channels = {}
  for n, key in ipairs(keys) do channels[n] = channelOf(key) end
  local subscribed = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for n, key in ipairs(keys) do
    local count, at = subscribed[2 * n] or 0, places[n] or places[1]
    if count > 0 and not redis.pcall('GET', key) then
      local others = count + 1 - tonumber(wakes)
      redis.pcall('PUBLISH', channels[n], others)
      told[at] = math.max(told[at] or 0, others)
    end
  end
end

local function tellOfReleases()
  if #untold == 0 then return end
  local prefix = string.sub(untold[1][1][1], 1, ${Buffer.byteLength(world.keyPrefix)})
  if ${subscribersOf('channelOf(prefix)')} == 0 then return end
  for _, each in ipairs(untold) do tell(unpack(each)) end
end
`;
