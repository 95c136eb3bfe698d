// Lua of the batch script of redis-scripts.ts: operations that are alike, one lock each, together.
import { lowestOf } from './redis-fences.js';

/**
 * In a batch the calls that its Lua makes cost more than what they do. A run of acquisitions, or of
 * releases, makes one call where each of them would make its own: to read, to delete, to ask for
 * subscribers. It does what goes smoothly and is done one after the other to the same effect.
 * Anything else, and what MGET is needed for where it is denied, it leaves to the operation, which
 * looks again.
 * Where nobody is subscribed to the common channel, nobody waits for any of the resources.
 * Whether a lock is taken is not read: SET NX says so. A token that may be more than the clock
 * allows is left to the operation, which knows that one more than the record is right.
 * Needs of the batch script: the operations, and what it answers with.
 */
export const RUNS = `
local function fail(places, problem)
  for _, place in ipairs(places) do answers[place] = errorOf(problem) end
end

local function acquireRun(first, many, words, ttl)
  local call, low, high, granted, count = redis.pcall, now - skew, now + skew, entryOf('granted'), 0
  local isKnown, fences, accepted, places = not isFenced, nil, {}, {}
  if isFenced then isKnown, fences = pcall(fencesOf, first, first + many - 1) end
  for n = 1, many do
    local key, owner, token, isFresh = KEYS[first + n - 1], words[n], words[many + n], isKnown
    if isFenced and isKnown then
      local proposed = 0 + token
      isFresh = proposed <= high and ${lowestOf('proposed')} > math.max(low, fences[n])
    end
    local stored = isFresh and call('SET', key, owner, 'PX', ttl, 'NX')
    if stored and stored.ok then
      answered, count = answered + 1, count + 1
      answers[answered], places[count] = granted, answered
      accepted[2 * count - 1], accepted[2 * count] = key, token
    else
      answer(pcall(acquire, first + n - 1, 1, owner, token, ttl))
    end
  end
  if not isFenced or count == 0 then return end
  local isKept, problem = pcall(remember, accepted)
  if not isKept then fail(places, problem) end
end

local function tellAll(keys, places, wakes)
  if subscribersOf(commonChannelOf(keys[1])) == 0 then return end
  local channels = {}
  for n, key in ipairs(keys) do channels[n] = channelOf(key) end
  local subscribed = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for n, place in ipairs(places) do
    answers[place] = tell(channels[n], subscribed[2 * n] or 0, wakes)
    areAlike = areAlike and answers[place] == 0
  end
end

local function releaseRun(first, many, words, wakes)
  local deleted, places, count = {}, {}, 0
  local holders = redis.pcall('MGET', unpack(KEYS, first, first + many - 1))
  for n = 1, many do
    local at, owner = first + n - 1, words[n]
    if holders[n] == owner then
      answered, count = answered + 1, count + 1
      answers[answered], deleted[count], places[count] = 0, KEYS[at], answered
    else
      answer(pcall(release, at, 1, owner, words[many + n], wakes))
    end
  end
  if count == 0 then return end
  local outcome = redis.pcall('DEL', unpack(deleted))
  if type(outcome) == 'table' then
    fail(places, outcome)
  elseif wakes ~= '0' then
    tellAll(deleted, places, wakes)
  end
end

local runs = {acquire = acquireRun, release = releaseRun}
`;
