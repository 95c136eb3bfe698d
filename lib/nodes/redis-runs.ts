// Lua of the batch script of redis-scripts.ts: operations that are alike, one lock each, together.

/**
 * In a batch the calls that its Lua makes cost more than what they do. A run of acquisitions, or of
 * releases, makes one call where each of them would make its own: to read, to delete, to ask for
 * subscribers. It does what goes smoothly and is done one after the other to the same effect.
 * Anything else, and what MGET is needed for where it is denied, it leaves to the operation, which
 * looks again.
 * Where nobody is subscribed to the common channel, nobody waits for any of the resources.
 * Whether a lock is taken is not read: SET NX says so. Of a record, MGET says false where there is
 * none; nil means that it was denied, and nothing is known.
 * Needs of the batch script: what it answers with, `answer`, `step`, and the operations.
 */
export const RUNS = `
local function fail(places, problem)
  areAlike = false
  for _, place in ipairs(places) do answers[place] = {'error', messageOf(problem)} end
end

local function acquireRun(first, owners, tokens, ttl)
  local call, max, low, count = redis.pcall, math.max, now - skew, 0
  local isKnown, fences, accepted, places = false, {}, {}, {}
  if isFenced then isKnown, fences = pcall(fencesOf, first, first + #owners - 1) end
  for n, owner in ipairs(owners) do
    local at, token = first + n - 1, tokens[n]
    local isFresh = not isFenced or isKnown and not refusal(token, max(low, fences[n]))
    local stored = isFresh and call('SET', KEYS[at], owner, 'PX', ttl, 'NX')
    if stored and stored.ok then
      answer(true, 'granted')
      count = count + 1
      places[count], accepted[2 * count - 1], accepted[2 * count] = answered, KEYS[at], token
    else
      answer(pcall(acquire, at, 1, owner, token, ttl))
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

local function releaseRun(first, owners, tokens, wakes)
  local keys, deleted, places, count = {}, {}, {}, 0
  for n = 1, #owners do keys[n] = KEYS[first + n - 1] end
  local holders = redis.pcall('MGET', unpack(keys))
  for n, key in ipairs(keys) do
    if holders[n] == owners[n] then
      answer(true, 'done')
      count = count + 1
      deleted[count], places[count] = key, answered
    else
      answer(pcall(release, first + n - 1, 1, owners[n], tokens[n], wakes))
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
