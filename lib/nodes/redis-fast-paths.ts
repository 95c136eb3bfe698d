// Lua of the scripts of redis-scripts.ts: one lock by itself, in the cases that happen most.
//
// Making the functions that all cases need costs a server more than locking. So these paths come
// before them, and end the script to the same effect as the operation. Anything else, and whatever
// is unusual, they leave to the operation, which looks again.
import type { World } from '../core/lock-node.js';
import { freshnessIn } from './redis-fences.js';
import { sharedKeys } from './redis-script-arguments.js';
import { stamped, STAMPED_TIME } from './redis-stamp.js';
import { addOverdue, channelIn, subscribersOf } from './redis-wake-ups.js';

/** An acquisition of one lock, unless its owner has it already. */
export const acquireAtOnce = (world: World): string => {
  const lock = firstLock(world);
  return `
if #KEYS == ${lock}${andCounted(world)} then
  local key, owner, ttl, digits = KEYS[${lock}], ARGV[2], ARGV[3], ARGV[4]
  local holder = redis.call('GET', key)
  if not holder then ${grant(world)}
  elseif holder ~= owner then
    return {${STAMPED_TIME}, 'taken', redis.call('PTTL', key), 0, holder}
  end
end
`;
};

/** A release that tells nobody and an acquisition of the same lock: a batch of two runs of one. */
export const handOverAtOnce = (world: World): string => {
  const first = firstLock(world);
  const second = first + 1;
  const token = world.fencing ? '"(%d+)"' : '';
  const acquisition = `^%["acquire","(%d+)",1,%["([^"]+)"%],%[${token}%]%]$`;
  return `
if #ARGV == 3 and #KEYS == ${second}${andCounted(world)} then
  local key, holder = KEYS[${first}], string.match(ARGV[2], '^%["release","0",1,%["([^"]+)"%]')
  local ttl, owner, digits = string.match(ARGV[3], '${acquisition}')
  if holder and owner and key == KEYS[${second}] and redis.pcall('GET', key) == holder then
    ${grant(world)}
  end
end
`;
};

/** A release of one lock by whoever has it. Nothing is locked in this call: who listens is told. */
export const releaseAtOnce = (world: World): string => {
  const lock = firstLock(world);
  return `
if #KEYS == ${lock} and redis.call('GET', KEYS[${lock}]) == ARGV[2] then
  local key, told = KEYS[${lock}], 0
  local channel = ${channelIn(world)}
  local subscribed = ARGV[3] ~= '0' and ${subscribersOf('channel')} or 0
  redis.call('DEL', key)
  if subscribed > 0 then
    told = subscribed + 1 - ARGV[3]
    ${addOverdue(world)}
    redis.pcall('PUBLISH', channel, told)
  end
  return ${stamped('told')}
end
`;
};

/** The place of the first lock among KEYS. */
const firstLock = (world: World): number => sharedKeys(world).length + 1;

/**
 * Locks `key`, which is free or handed on, for `owner`, and ends the script. So does an error in
 * writing the record: the operation would find the key its owner's, and grant it without a record.
 */
const grant = (world: World): string =>
  world.fencing
    ? `${freshnessIn(world)}
    if isFresh and redis.pcall('SET', key, owner, 'PX', ttl).ok then
      redis.call('HSET', hash, key, digits)
      return ${STAMPED_TIME}
    end`
    : `
    if redis.pcall('SET', key, owner, 'PX', ttl).ok then return ${STAMPED_TIME} end`;

/** Lua that goes on with a condition: and this node's votes count. */
const andCounted = ({ quarantine }: World): string =>
  quarantine === 0 ? '' : ' and uncounted == 0';
