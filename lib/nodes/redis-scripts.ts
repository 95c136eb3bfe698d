// The Lua texts that run on a Redis node. What they are called with: redis-script-arguments.ts.
//
// A text is made for one world and has its numbers in it: to send and read them with each call
// would cost more than what the call does. A server keeps a few texts for each world.
// The order of writes matters: Redis refuses a script for want of memory or of replicas only at its
// first write. That one is the lock's key, so a refused acquisition leaves nothing behind; the
// certificate comes last. Rights on keys are checked before the script, those on commands at each
// call: where one is denied, a key may be left behind.
// The Lua has no comments: it travels in every bundle and to every server.
// Numbers of microseconds travel and are stored as digits: `tostring` rounds to 14 of them.
// eslint-disable-next-line no-restricted-imports -- a hash of constants, no randomness
import { createHash } from 'node:crypto';

import type { World } from '../core/lock-node.js';
import { acquireAtOnce, handOverAtOnce, releaseAtOnce } from './redis-fast-paths.js';
import { fencesIn } from './redis-fences.js';
import { ACQUIRE, EXTEND, RELEASE } from './redis-operations.js';
import { RUNS } from './redis-runs.js';
import { sharedKeys } from './redis-script-arguments.js';
import { stamped, STAMPED_TIME } from './redis-stamp.js';
import { wakeUpsIn } from './redis-wake-ups.js';

/** A script, and the name under which a server keeps it. */
export interface RedisScript {
  readonly text: string;
  readonly sha: string;
}

/** What a node is asked about the locks of one world. `certify` is the certificate step alone. */
export interface RedisScripts {
  readonly acquire: RedisScript;
  readonly extend: RedisScript;
  readonly release: RedisScript;
  /**
   * Many operations, in order and independent of each other: one that fails answers for itself.
   * Redis would end the whole script with the first error, and nobody would learn what those
   * before it had done.
   */
  readonly batch: RedisScript;
  readonly certify: RedisScript;
}

/**
 * What every script begins with: whether this world fences, S in µs (`skew`), and the node's time
 * in µs (`now`), once `readClock` was called. A call is judged at one moment, so it reads once.
 * KEYS: with quarantine the certificate, with fencing the two hashes of records, then the locks.
 * For `certify` the rules of the world follow the certificate at once.
 */
const preamble = (world: World): string => `
local isFenced, skew = ${world.fencing}, ${world.clockSkewMax * 1_000}
local now = 0

local function readClock()
  if now > 0 then return end
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
`;

/**
 * The birth certificate, PROTOCOL.md section 9. Without quarantine all votes count.
 * `readCertificate`: for how many µs votes do not count yet, the certificate to write if there is
 * no valid one, and whether INFO may be asked here. Without memory to write it the node has none,
 * and stays quarantined, which is no error. `counted`: what a vote is worth, and its figures.
 * Mostly the replid is the known one, and looking for it in INFO costs less than extracting it.
 * A replica may be writable, and has its master's replid and certificate: it writes none. Where
 * INFO is denied the role is unknown, and the node is taken for a master.
 */
const certificate = ({ quarantine }: World, isPersistent: boolean): string =>
  quarantine === 0
    ? `
local function counted(vote, figure, nth, holder) return vote, figure or 0, nth, holder end
`
    : `
local quarantine, isPersistent, isReplica = ${quarantine * 1_000}, ${isPersistent}

local function readCertificate()
  local known, digits = string.match(redis.call('GET', KEYS[1]) or '', '^([^:]*):(%d+)$')
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then info = 'role:master' end
  isReplica = not string.find(info, 'role:master', 1, true)
  local isSame = known and string.find(info, 'master_replid:' .. known .. '\\r', 1, true)
  local replid = isSame and known or string.match(info, 'master_replid:(%x+)')
  local birth = tonumber(digits or '')
  local isForeign = replid and replid ~= known and not isPersistent
  if not birth or isForeign or birth > now + 1000000 then
    return quarantine, (replid or '?') .. ':' .. string.format('%.0f', now), replid
  end
  return math.max(0, quarantine - (now - birth)), nil, replid
end

readClock()
local uncounted, certificate, replid = readCertificate()

local function counted(vote, figure, nth, holder)
  if vote == 'granted' and uncounted > 0 then
    return 'quarantined', math.ceil(uncounted / 1000)
  end
  return vote, figure or 0, nth, holder
end
`;

/** Makes a replica vote as if it refused writes: it is then reconnected, and its role found out. */
const refuseIfReplica = ({ quarantine }: World): string =>
  quarantine === 0
    ? ''
    : `if isReplica then return redis.error_reply('READONLY It is a replica.') end`;

/** Comes last, after whatever may be refused for want of memory. */
const writeCertificate = ({ quarantine }: World): string =>
  quarantine === 0
    ? ''
    : `if certificate and not isReplica then redis.pcall('SET', KEYS[1], certificate) end`;

/**
 * Clients that go by different numbers do not keep each other's locks through a restart, or not
 * each other's tokens; majorities of different numbers of nodes (ARGV) need not share a node at
 * any time. Each client leaves its numbers in the last of KEYS when it connects, and learns those
 * of the client before.
 */
const agreement = ({ clockSkewMax, fenceRetention, fencing, quarantine }: World): string => `
local function exchangeRules()
  local ours = '${clockSkewMax}:${fencing ? fenceRetention : 0}:${quarantine}:' .. ARGV[1]
  local theirs = redis.call('GET', KEYS[#KEYS])
  if theirs ~= ours then redis.pcall('SET', KEYS[#KEYS], ours) end
  return theirs or ours
end
`;

/**
 * What an operation on all locks among KEYS is called with. ARGV: the tag, owner, ttl, and with
 * fencing the token. In place of the ttl a release has '0' when it tells nobody, else the `wakes`
 * of redis-wake-ups.ts.
 */
function argumentsForOwner(world: World): string {
  const before = sharedKeys(world).length;
  return `${before + 1}, #KEYS - ${before}, ARGV[2], ARGV[4], ARGV[3]`;
}

/** Answers with the node's time; where the vote is not `granted`, also with vote and figures. */
const ANSWER_OWNER = `
if vote == 'granted' then return ${STAMPED_TIME} end
return {${STAMPED_TIME}, vote, figure, nth, holder}`;

/**
 * ARGV: the tag; for each run of operations that are alike one JSON list: its name, its ttl (or
 * what a release has there), the number of locks of each operation, and two lists, of the owners
 * and, with fencing, of their tokens. Answers with the node's time alone if all were granted or
 * done and nobody was told. Else with the time, and for each operation: if it was granted or done,
 * a number, which says whom a release told; if not, its vote and figures.
 * `answers`: the entries, by place; those that are 0 may be missing. `areAlike`: whether all are 0.
 * `entryOf`: the entry for a vote.
 */
const batch = (world: World): string => `
local operations = {acquire = acquire, extend = extend, release = release}
local answers, areAlike = {${STAMPED_TIME}}, true

local function entryOf(vote, figure, nth, holder)
  vote, figure, nth, holder = counted(vote, figure, nth, holder)
  local isPlain = vote == 'granted' or vote == 'done'
  areAlike = areAlike and isPlain and figure == 0
  return isPlain and figure or {vote, figure, nth, holder}
end

local function errorOf(problem)
  areAlike = false
  return {'error', type(problem) == 'table' and problem.err or problem}
end

local function answer(isDone, vote, figure, nth, holder)
  local isVote = isDone and type(vote) == 'string'
  answers[current] = isVote and entryOf(vote, figure, nth, holder) or errorOf(vote)
end

local function perform(at, operation, ...)
  current = at
  answer(pcall(operation, ...))
end

${RUNS}
local first, answered = ${sharedKeys(world).length + 1}, 1
for argument = 2, #ARGV do
  local name, figure, each, owners, tokens = unpack(cjson.decode(ARGV[argument]))
  if runs[name] and each == 1 and #owners > 1 then
    runs[name](first, answered, owners, tokens, figure)
  else
    for n, owner in ipairs(owners) do
      local at = first + (n - 1) * each
      perform(answered + n, operations[name], at, each, owner, tokens[n], figure)
    end
  end
  first, answered = first + #owners * each, answered + #owners
end

tellOfReleases()
for at, figure in pairs(toldAt) do
  if type(answers[at]) ~= 'table' then
    answers[at] = figure
    areAlike = areAlike and figure == 0
  end
end
`;

/** The scripts for the locks of `world`, on a node that is persistent or not. */
export function scriptsOf(world: World, isPersistent: boolean): RedisScripts {
  const { fencing, quarantine } = world;
  const begin = `${preamble(world)}${certificate(world, isPersistent)}`;
  const beginVote = `${begin}${refuseIfReplica(world)}`;
  const fences = fencing ? fencesIn(world) : '';
  const readClock = fencing && quarantine === 0 ? 'readClock()' : '';
  const given = argumentsForOwner(world);
  return {
    acquire: script(`${beginVote}${readClock}${acquireAtOnce(world)}${fences}${ACQUIRE}
local vote, figure, nth, holder = counted(acquire(${given}))
${writeCertificate(world)}${ANSWER_OWNER}`),

    extend: script(`${beginVote}${fences}${EXTEND}
local vote, figure, nth, holder = counted(extend(${given}))
${writeCertificate(world)}${ANSWER_OWNER}`),

    release: script(`${releaseAtOnce(world)}${preamble(world)}${wakeUpsIn(world)}${fences}
${RELEASE}
local outcome = release(${given})
tellOfReleases()
if outcome ~= 'done' then return outcome end
return ${stamped('(toldAt[1] or 0)')}`),

    batch: script(`${beginVote}${readClock}${handOverAtOnce(world)}${fences}
${ACQUIRE}${EXTEND}${wakeUpsIn(world)}${RELEASE}${batch(world)}
${writeCertificate(world)}
if areAlike then return answers[1] end
for place = 2, answered do answers[place] = answers[place] or 0 end
return answers`),

    certify: script(`${begin}${agreement(world)}
${quarantine === 0 ? 'readClock() local uncounted, replid = 0, 1' : writeCertificate(world)}
return {now, math.ceil(uncounted / 1000), replid and 1 or 0, exchangeRules()}`),
  };
}

/**
 * Who holds the last of KEYS, and for how many ms more. If nobody does: why it would not be locked,
 * or '', and if it would be, why it would not be released. Tries what locks and releases are made
 * of, so that nothing changes: on the key, which is not there, and HSET on the rules of the world,
 * which are no hash. SET comes first, as it shows want of memory or of replicas.
 */
export function inspectScript({ fencing }: World): RedisScript {
  const fence = fencing ? `, {'HMGET', key, ''}, {'UNLINK', key}, {'HSET', KEYS[1], '', ''}` : '';
  return script(`
local key, hasRules = KEYS[#KEYS], redis.call('GET', KEYS[1])
local holder = redis.call('GET', key)
local commands = {{'SET', key, '', 'XX', 'PX', 1}, {'PEXPIRE', key, 1}, {'TIME'}${fence}}

local function refusalOf(command)
  if command[2] == KEYS[1] and not hasRules then return '' end
  local outcome = redis.pcall(unpack(command))
  local problem = type(outcome) == 'table' and outcome.err or ''
  return string.find(problem, 'WRONGTYPE', 1, true) and '' or problem
end

local refusal = ''
for _, command in ipairs(holder and {} or commands) do
  if refusal == '' then refusal = refusalOf(command) end
end
local isLockable = not holder and refusal == ''
return {holder, redis.call('PTTL', key), refusal, isLockable and refusalOf({'DEL', key})}`);
}

function script(text: string): RedisScript {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
