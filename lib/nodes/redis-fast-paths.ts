// Lua of the scripts of redis-scripts.ts: one lock by itself, where all goes smoothly.
//
// To make the functions that every case needs costs a server more than to lock, so what happens
// most comes before them and ends the script. It does what the operation would do. Anything else,
// and whatever is not as usual, it leaves to the operation, which looks again.
import type { World } from '../core/lock-node.js';
import { freshnessIn } from './redis-fences.js';
import { sharedKeys } from './redis-script-arguments.js';

/** An acquisition of one lock, unless its owner has it already. */
export const acquireAtOnce = (world: World): string => {
  const lock = firstLock(world);
  return `
if #KEYS == ${lock}${isCounted(world)} then
  local key, owner, ttl, digits = KEYS[${lock}], ARGV[1], ARGV[2], ARGV[3]
  local holder = redis.call('GET', key)
  if not holder then ${grant(world)}
  elseif holder ~= owner then
    return {'taken', now, redis.call('PTTL', key)}
  end
end
`;
};

/** A batch of two: a release that tells nobody, then an acquisition of the same lock. */
export const handOverAtOnce = (world: World): string => {
  const lock = firstLock(world);
  const ownerAndToken = world.fencing ? '(%S+) (%d+)' : '(%S+)';
  return `
if #ARGV == 2${isCounted(world)} then
  local key, holder = KEYS[${lock}], string.match(ARGV[1], '^release 0 1 (%S+)')
  local ttl, owner, digits = string.match(ARGV[2], '^acquire (%d+) 1 ${ownerAndToken}$')
  if holder and owner and key == KEYS[${lock + 1}] and redis.pcall('GET', key) == holder then
    ${grant(world)}
  end
end
`;
};

/** A release of one lock by whoever has it. Needs `wake`. */
export const releaseAtOnce = (world: World): string => {
  const lock = firstLock(world);
  return `
if #KEYS == ${lock} and redis.call('GET', KEYS[${lock}]) == ARGV[1] then
  redis.call('DEL', KEYS[${lock}])
  return ARGV[2] == '0' and 0 or wake(${lock}, ${lock}, ARGV[2])
end
`;
};

/** The place of the first lock among KEYS. */
const firstLock = (world: World): number => sharedKeys(world).length + 1;

/**
 * Locks `key`, which is free or handed on, for `owner`, and ends the script. So does an error of
 * the record: the operation would find the key its owner's, and grant it without one.
 */
const grant = (world: World): string =>
  world.fencing
    ? `${freshnessIn(world)}
    if isFresh and redis.pcall('SET', key, owner, 'PX', ttl).ok then
      redis.call('HSET', hash, key, digits)
      return now
    end`
    : `
    if redis.pcall('SET', key, owner, 'PX', ttl).ok then return now end`;

/** Whether a vote of this node counts. */
const isCounted = ({ quarantine }: World): string =>
  quarantine === 0 ? '' : ' and uncounted == 0';
