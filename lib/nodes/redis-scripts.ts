// The Lua texts that run on a Redis node. What they are called with: redis-script-arguments.ts.
//
// Each operation is a Lua function over a slice of KEYS, so that a script may run one of them or
// many in a loop. The order of writes matters: Redis refuses a script for want of memory, of
// replicas or of the right to write only at its first write. That one is the lock's key, so a
// refused acquisition leaves nothing behind; the certificate comes last.
// The Lua has no comments: it travels in every bundle and to every server.
// Numbers of microseconds travel and are stored as digits: `tostring` rounds to 14 of them.
// eslint-disable-next-line no-restricted-imports -- a hash of constants, no randomness
import { createHash } from 'node:crypto';
import { RUNS } from './redis-runs.js';

/** A script, and the name under which a server keeps it. */
export interface RedisScript {
  readonly text: string;
  readonly sha: string;
}

/**
 * What every script begins with: the world's numbers and the node's time.
 * ARGV: S in ms, R in ms ('0': no fencing), M in ms (0: no quarantine), '1' for a persistent node.
 * KEYS: the certificate, then the keys of each operation: its locks, and with fencing as many
 * fence records. `lowestRefused`: the highest token that is too small for all of these records.
 */
const WORLD = `
local KEYS, ARGV, redis, tonumber = KEYS, ARGV, redis, tonumber
local skew = tonumber(ARGV[1]) * 1000
local retention = ARGV[2]
local quarantine = tonumber(ARGV[3]) * 1000
local isPersistent = ARGV[4] == '1'
local isFenced = retention ~= '0'

local function readClock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now = 0
if isFenced or quarantine > 0 then now = readClock() end

local function lowestRefused(first, last)
  local low = now - skew
  for i = first, last do
    local recorded = tonumber(redis.call('GET', KEYS[i]) or '0')
    if recorded > low then low = recorded end
  end
  return low
end
`;

/**
 * The birth certificate, PROTOCOL.md section 9: for how many µs the votes do not count yet, the
 * certificate to write if there is none that is valid, and whether INFO may be asked here.
 * Without memory to write it the node has none, and stays quarantined: no error. `counted`: what
 * a vote is worth while the node is, or is not, quarantined.
 */
const CERTIFICATE = `
local function readCertificate()
  if quarantine == 0 then return 0, nil, true end
  local info = redis.pcall('INFO', 'replication')
  local replid = type(info) == 'string' and string.match(info, 'master_replid:(%x+)')
  local known, digits = string.match(redis.call('GET', KEYS[1]) or '', '^(.*):(%d+)$')
  local birth = tonumber(digits or '')
  local isForeign = replid and replid ~= known and not isPersistent
  if not birth or isForeign or birth > now + 1000000 then
    return quarantine, (replid or '?') .. ':' .. string.format('%.0f', now), replid
  end
  return math.max(0, quarantine - (now - birth)), nil, replid
end

local function writeCertificate(certificate)
  if certificate then redis.pcall('SET', KEYS[1], certificate) end
end

local function counted(uncounted, vote, figure)
  if vote == 'granted' and uncounted > 0 then
    return 'quarantined', math.ceil(uncounted / 1000)
  end
  return vote, figure or 0
end
`;

/**
 * Clients that go by different numbers do not keep each other's locks through a restart. Each
 * leaves its own with the certificate when it connects, and learns of the one before it.
 */
const AGREEMENT = `
local function exchangeRules()
  if quarantine == 0 then return '' end
  local ours = ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[3]
  local theirs = redis.call('GET', KEYS[2])
  if theirs ~= ours then redis.pcall('SET', KEYS[2], ours) end
  return theirs or ours
end
`;

const ACQUIRE = `
local function refusal(token, low)
  local proposed = tonumber(token)
  if proposed <= low then return 'stale' end
  if proposed > math.max(now + skew, low + 1) then return 'ahead' end
end

local function acquire(first, count, owner, token, ttl)
  local last, owned = first + count - 1, 0
  for i = first, last do
    local holder = redis.call('GET', KEYS[i])
    if holder == owner then
      owned = owned + 1
    elseif holder then
      return 'taken', redis.call('PTTL', KEYS[i])
    end
  end
  if owned == count then return 'granted' end
  if isFenced then
    local low = lowestRefused(last + 1, last + count)
    local vote = refusal(token, low)
    if vote then return vote, low end
  end
  for i = first, last do redis.call('SET', KEYS[i], owner, 'PX', ttl) end
  if isFenced then
    for i = last + 1, last + count do redis.call('SET', KEYS[i], token, 'PX', retention) end
  end
  return 'granted'
end
`;

/**
 * `restore` creates a key that is gone. Memory may be full: then it stays gone, and the vote is
 * the same.
 */
const EXTEND = `
local function restore(key, fence, owner, token, ttl)
  local answer = redis.pcall('SET', key, owner, 'PX', ttl)
  if not isFenced or answer.err then return end
  if tonumber(token) > tonumber(redis.call('GET', fence) or '0') then
    redis.pcall('SET', fence, token, 'PX', retention)
  end
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
      restore(KEYS[i], KEYS[i + count], owner, token, ttl)
    elseif left >= 0 and left < tonumber(ttl) then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
  end
  return isWhole and 'granted' or 'revoked'
end
`;

/**
 * `wake` tells the processes that listen for these locks, and says how many others they are:
 * `wakes` is '2' where the caller listens itself, else '1'. A user without the right to is heard
 * by nobody: they poll. Where all keys were deleted the acquisition has been here, and its token
 * is on record.
 */
const RELEASE = `
local prefix = string.sub(KEYS[1], 1, -#'redlock:node' - 1)
local wakePrefix, keyStart = prefix .. 'redlock:wake:', #prefix + 1

local function channelOf(key)
  return wakePrefix .. string.sub(key, keyStart)
end

local function tell(channel, subscribed, wakes)
  if subscribed == 0 then return 0 end
  local others = math.max(0, subscribed + 1 - tonumber(wakes))
  redis.pcall('PUBLISH', channel, others)
  return others
end

local function wake(first, last, wakes)
  local most = 0
  for i = first, last do
    local channel = channelOf(KEYS[i])
    local subscribed = redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0
    most = math.max(most, tell(channel, subscribed, wakes))
  end
  return most
end

local function release(first, count, owner, token, wakes)
  local last, deleted = first + count - 1, 0
  for i = first, last do
    if redis.call('GET', KEYS[i]) == owner then
      deleted = deleted + redis.call('DEL', KEYS[i])
    end
  end
  local listeners = 0
  if deleted > 0 and wakes ~= '0' then listeners = wake(first, last, wakes) end
  if deleted == count or not isFenced then return 'done', listeners end
  local proposed = tonumber(token)
  if lowestRefused(last + 1, last + count) < proposed and proposed <= now + skew then
    for i = last + 1, last + count do
      redis.pcall('SET', KEYS[i], token, 'PX', retention)
    end
  end
  return 'done', listeners
end
`;

/**
 * ARGV of a script that runs one operation, after the world's: owner, token, ttl, count. A release
 * has in place of the ttl '0' where it tells nobody, else what `wake` is told.
 */
const ONE = `2, tonumber(ARGV[8]), ARGV[5], ARGV[6], ARGV[7]`;

/** What a node is asked, as scripts. `certify` is the certificate step alone. */
export const scripts = {
  acquire: script(`${WORLD}${CERTIFICATE}${ACQUIRE}
local uncounted, certificate = readCertificate()
local vote, figure = counted(uncounted, acquire(${ONE}))
writeCertificate(certificate)
return {vote, now, figure}`),

  extend: script(`${WORLD}${CERTIFICATE}${EXTEND}
local uncounted, certificate = readCertificate()
local vote, figure = counted(uncounted, extend(${ONE}))
writeCertificate(certificate)
return {vote, now, figure}`),

  release: script(`${WORLD}${RELEASE}
local vote, listeners = release(${ONE})
return {vote, now, listeners}`),

  /**
   * Many operations, in order and independent of each other: one that fails answers for itself.
   * ARGV, after the world's: for each run of operations that are alike its name, its ttl (or what
   * a release has there), the number of locks of each, and the owner of each, with fencing
   * followed by its token, all with spaces between. Answers with the node's time, and for each
   * operation with 1 where it was granted or done and nothing is to be added, else with its vote
   * and a figure.
   * Redis would end the whole script with the first error, and nobody would learn what those
   * before it had done.
   */
  batch: script(`${WORLD}${CERTIFICATE}${ACQUIRE}${EXTEND}${RELEASE}
local operations = {acquire = acquire, extend = extend, release = release}
local uncounted, certificate = readCertificate()
local answers, answered, step = {now}, 1, isFenced and 2 or 1

local function answer(isDone, vote, figure)
  answered = answered + 1
  if not isDone then
    answers[answered] = {'error', type(vote) == 'table' and vote.err or vote}
    return
  end
  if uncounted > 0 then vote, figure = counted(uncounted, vote, figure) end
  local isPlain = (figure or 0) == 0 and (vote == 'granted' or vote == 'done')
  answers[answered] = isPlain and 1 or {vote, figure or 0}
end
${RUNS}
local first = 2
local eachOwner = isFenced and '(%S+) (%S+)' or '%S+'
for i = 5, #ARGV, 4 do
  local name, figure, count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local owners, tokens, many = {}, {}, 0
  for owner, token in string.gmatch(ARGV[i + 3], eachOwner) do
    many = many + 1
    owners[many], tokens[many] = owner, token
  end
  if runs[name] and count == 1 and many > 1 then
    runs[name](first, owners, tokens, figure)
  else
    for n, owner in ipairs(owners) do
      local at = first + (n - 1) * count * step
      answer(pcall(operations[name], at, count, owner, tokens[n], figure))
    end
  end
  first = first + many * count * step
end
writeCertificate(certificate)
return answers`),

  inspect: script(`return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}`),

  certify: script(`${WORLD}${CERTIFICATE}${AGREEMENT}
now = readClock()
local uncounted, certificate, replid = readCertificate()
writeCertificate(certificate)
return {now, math.ceil(uncounted / 1000), replid and 1 or 0, exchangeRules()}`),
} as const;

function script(text: string): RedisScript {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
