// Lua of the batch script of redis-scripts.ts: operations that are alike, one lock each, together.
import { lowestOf } from './redis-fences.js';

/**
 * In a batch the calls that its Lua makes cost more than what they do. A run of acquisitions, or of
 * releases, makes one call where each of them would make its own: to read, to delete, to ask for
 * subscribers. A run does only what goes smoothly, to the same effect as one operation after the
 * other. Anything else it leaves to the operation, which looks again: where MGET is denied, that is
 * every release.
 * Whether a lock is taken is not read: SET NX says so. A token that may be more than the clock
 * allows is left to the operation, which knows that one more than the record is right.
 * `answered`: how many places of the answer are before those of the run.
 * Uses from the batch script: the operations, and what it answers with.
 */
export const RUNS = `
local function fail(places, problem)
  for _, place in ipairs(places) do answers[place] = errorOf(problem) end
end

local function acquireRun(first, answered, owners, tokens, ttl)
  local call, granted = redis.pcall, entryOf('granted')
  local low, high = now - skew, now + skew
  local isKnown, fences = not isFenced, nil
  local accepted, places, count = {}, {}, 0
  if isFenced then isKnown, fences = pcall(fencesOf, first, first + #owners - 1) end
  for n, owner in ipairs(owners) do
    local at, token, isFresh = first + n - 1, tokens[n], isKnown
    if isFenced and isKnown then
      local proposed = 0 + token
      isFresh = proposed <= high and ${lowestOf('proposed')} > math.max(low, fences[n])
    end
    local stored = isFresh and call('SET', KEYS[at], owner, 'PX', ttl, 'NX')
    if not (stored and stored.ok) then
      perform(answered + n, acquire, at, 1, owner, token, ttl)
    else
      if granted ~= 0 then answers[answered + n] = granted end
      if isFenced then
        count = count + 1
        places[count], accepted[2 * count - 1], accepted[2 * count] = answered + n, KEYS[at], token
      end
    end
  end
  if count == 0 then return end
  local isKept, problem = pcall(remember, accepted)
  if not isKept then fail(places, problem) end
end

local function releaseRun(first, answered, owners, tokens, wakes)
  local deleted, places, count = {}, {}, 0
  local holders = redis.pcall('MGET', unpack(KEYS, first, first + #owners - 1))
  for n, owner in ipairs(owners) do
    local at = first + n - 1
    if holders[n] == owner then
      count = count + 1
      deleted[count], places[count] = KEYS[at], answered + n
    else
      perform(answered + n, release, at, 1, owner, tokens[n], wakes)
    end
  end
  if count == 0 then return end
  local outcome = redis.pcall('DEL', unpack(deleted))
  if type(outcome) == 'table' then
    fail(places, outcome)
  elseif wakes ~= '0' then
    untold[#untold + 1] = {deleted, places, wakes}
  end
end

local runs = {acquire = acquireRun, release = releaseRun}
`;
