// Who is told of a release: Lua of the scripts of redis-scripts.ts, and how to read what it says.
// PROTOCOL.md section 10.
import { OVERDUE, type Told, type World } from '../core/lock-node.js';

/** A message or an answer is one figure: how many others were told, and this for each overdue. */
const PER_OVERDUE = 1_000_000;

/** Who was told, by such a figure. */
export function toldIn(figure: number): Told {
  return { listeners: figure % PER_OVERDUE, overdue: Math.floor(figure / PER_OVERDUE) };
}

/** Lua for the channel on which the release of the lock `key` is told, or of `before` and `key`. */
export const channelIn = ({ keyPrefix }: World, before = ''): string => {
  const length = Buffer.byteLength(keyPrefix);
  const begin = `redlock:wake:${before}`;
  // Mostly there is no prefix, and nothing to cut for each lock that is released.
  if (length === 0) return `'${begin}' .. key`;
  return `string.sub(key, 1, ${length}) .. '${begin}' .. string.sub(key, ${length + 1})`;
};

/** Lua for how many are subscribed to `channel`; 0 for a user without the right to ask. */
export const subscribersOf = (channel: string): string =>
  `(redis.pcall('PUBSUB', 'NUMSUB', ${channel})[2] or 0)`;

/** Lua that makes of `told`, so many others, the figure that also says how many are overdue. */
export const addOverdue = (world: World): string => {
  const overdue = subscribersOf(channelIn(world, OVERDUE));
  return `if told > 0 then told = told + ${PER_OVERDUE} * ${overdue} end`;
};

/**
 * A release notes in `untold` what it has deleted: the keys; where in the answer who released them
 * has a place, one for each or for all (`current`: of the operation that runs); and `wakes`, which
 * is '2' when the caller itself listens, else '1'.
 * `tellOfReleases` comes last, and tells the processes that listen, except for what the same call
 * has locked again: they would try in vain. It leaves in `toldAt`, by place, the largest figure for
 * one lock, without the caller. A user without the right to publish is heard by nobody, and the
 * others poll.
 * Whoever listens for any lock is subscribed to the common channel too: where nobody is, nobody
 * waits for any of the locks.
 */
export const wakeUpsIn = (world: World): string => `
local untold, toldAt, current = {}, {}, 1

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
      local told = count + 1 - wakes
      ${addOverdue(world)}
      redis.pcall('PUBLISH', channels[n], told)
      toldAt[at] = math.max(toldAt[at] or 0, told)
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
