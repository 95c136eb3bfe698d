// Ways for a node to remember tokens, as batch scripts: what docs/FENCING-COSTS.md compares.
// Prototypes. They take runs of acquisitions and releases of one lock each, without quarantine.
import { resolveOptions } from '../../lib/core/options.js';
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';

/** What a node is called with for each lock: its key, and its fence record where there is one. */
export interface Form {
  readonly name: string;
  readonly script: string;
  readonly isFenced: boolean;
  /** Keys before those of the locks. */
  readonly shared: readonly string[];
  readonly hasRecords: boolean;
}

/** S, in ms: the library's, as is R. */
export const SKEW = 2_000;
const RETENTION = 10_000;

const WORLD = `
local KEYS, ARGV, redis, tonumber = KEYS, ARGV, redis, tonumber
local skew, retention = ${SKEW * 1_000}, ${RETENTION}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answers, answered = {now}, 1

local function answer(vote, figure)
  answered = answered + 1
  local isPlain = vote == 'granted' or vote == 'done'
  answers[answered] = isPlain and 0 or {vote, figure}
end

local function refusal(token, low)
  if token <= low then return 'stale' end
  if token > math.max(now + skew, low + 1) then return 'ahead' end
end
`;

const RUNS = `
local function releaseRun(first, owners, tokens)
  local keys, channels, listed = {}, {}, {}
  for n = 1, #owners do keys[n] = KEYS[first + (n - 1) * step] end
  local holders = redis.call('MGET', unpack(keys))
  for n, key in ipairs(keys) do
    local token = tokens[n]
    if holders[n] ~= owners[n] then
      bury(key, token)
    elseif let(key, token, first + (n - 1) * step) then
      listed[#listed + 1] = key
    end
    channels[n] = 'redlock:wake:' .. key
    answer('done')
  end
  if #listed > 0 then redis.call('DEL', unpack(listed)) end
  redis.call('PUBSUB', 'NUMSUB', unpack(channels))
end

local runs, first = {acquire = acquireRun, release = releaseRun}, start
for _, run in ipairs(ARGV) do
  local name, figure, rest = string.match(run, '^(%a+) (%d+) %d+ (.+)$')
  local owners, tokens, many = {}, {}, 0
  for owner, token in string.gmatch(rest, '(%S+) (%S+)') do
    many = many + 1
    owners[many], tokens[many] = owner, token
  end
  runs[name](first, owners, tokens, figure)
  first = first + many * step
end
`;

// `low` of a lock is what its form says; `keep` remembers a token that was accepted.
const ACQUIRE = `
local function acquireRun(first, owners, tokens, ttl)
  local found = redis.call('MGET', unpack(KEYS, first, first + #owners * step - 1))
  local taken = {}
  prepare(first, #owners)
  for place, owner in ipairs(owners) do
    local n = (place - 1) * step + 1
    local key, holder, token = KEYS[first + n - 1], found[n], tonumber(tokens[place])
    local low = math.max(now - skew, lowOf(key, found, n))
    local vote = (isHolder(holder) or taken[key]) and 'taken' or refusal(token, low)
    if not vote then
      redis.call('SET', key, owner, 'PX', ttl)
      taken[key] = true
      keep(key, tokens[place], token)
    end
    answer(vote or 'granted', low)
  end
  settle()
end
`;

const HOLDER = `
local function isHolder(holder) return holder end
`;

/** KEYS[1] and KEYS[2]: this generation's tokens and the one's before, by lock. */
const BOOKS = `
local step, start = 1, 3
local young, old, records, size = {}, {}, {}, 0

local function prepare(first, many)
  local last = first + many - 1
  young = redis.call('HMGET', KEYS[1], 'redlock:born', unpack(KEYS, first, last))
  old = redis.call('HMGET', KEYS[2], unpack(KEYS, first, last))
  records, size = {}, 0
end

local function lowOf(_, _, n) return tonumber(young[n + 1] or old[n] or '0') end

local function keep(key, digits)
  records[size + 1], records[size + 2] = key, digits
  size = size + 2
end

local function turn(born)
  local age = born and now - tonumber(born)
  if age and age < retention * 1000 then return end
  if age then
    redis.call('UNLINK', KEYS[2])
    redis.call('RENAME', KEYS[1], KEYS[2])
  end
  redis.call('HSET', KEYS[1], 'redlock:born', string.format('%080.0f', now))
end

local function settle()
  if size == 0 then return end
  turn(young[1])
  redis.call('HSET', KEYS[1], unpack(records))
end

local function bury(key, digits)
  young = redis.call('HMGET', KEYS[1], 'redlock:born', key)
  local recorded = tonumber(young[2] or redis.call('HGET', KEYS[2], key) or '0')
  if tonumber(digits) <= math.max(now - skew, recorded) then return end
  if tonumber(digits) > now + skew then return end
  records, size = {key, digits}, 2
  settle()
end

local function let() return true end
`;

/** KEYS[1]: the highest token of long ago, of the epoch before, of this one, and its number. */
const MARK = `
local mark = redis.call('GET', KEYS[1]) or ''
local a, b, c, d = string.match(mark, '^(%d+) (%d+) (%d+) (%d+)$')
local old, before = tonumber(a or '0'), tonumber(b or '0')
local current, epoch = tonumber(c or '0'), tonumber(d or '0')
local today = math.floor(now / 33000)
if today ~= epoch then
  old, before = math.max(old, before), current
  if today ~= epoch + 1 then old, before = math.max(old, current), 0 end
  current, epoch = 0, today
end
local function prepare() end
local function settle() end
local function keep(_, _, token) current = math.max(current, token) end
local function bury(_, digits)
  if tonumber(digits) <= now + skew then keep(nil, nil, tonumber(digits)) end
end
`;
const WRITE_MARK = `
if current > 0 then
  local all = string.format('%.0f %.0f %.0f %.0f', old, before, current, epoch)
  redis.call('SET', KEYS[1], all)
end
return answers`;

const RECORD = `
local step, start = 2, 2
local function lowOf(_, found, n)
  return math.max(old, tonumber(found[n + 1] or '0'))
end
local function let(key, digits, at)
  if tonumber(digits) <= old then return true end
  redis.call('SET', KEYS[at + 1], digits, 'PX', 200)
  return true
end
`;

const TOMBSTONE = `
local step, start = 1, 2
local function isTomb(holder) return holder and string.byte(holder) == 35 end
local function isHolder(holder) return holder and not isTomb(holder) end
local function lowOf(_, found, n)
  local buried = isTomb(found[n]) and tonumber(string.sub(found[n], 2)) or 0
  return math.max(old, buried)
end
local function let(key, digits)
  if tonumber(digits) <= old then return true end
  redis.call('SET', key, '#' .. digits, 'PX', 200)
  return false
end
`;

const WATERMARK = `
local step, start = 1, 2
local function lowOf() return math.max(old, before, current) end
local function let() return true end
`;

const LOCKS = { isFenced: true, hasRecords: false } as const;

function libraryBatch(fencing: boolean): string {
  const { world } = resolveOptions({ fencing, quarantine: false }, 3);
  return scriptsOf(world, false).batch.text;
}

/** In the order of the tables. */
export const forms: readonly Form[] = [
  {
    name: 'no fencing',
    script: libraryBatch(false),
    isFenced: false,
    shared: [],
    hasRecords: false,
  },
  {
    name: 'record per resource (section 8)',
    script: libraryBatch(true),
    isFenced: true,
    shared: [],
    hasRecords: true,
  },
  {
    name: 'two books',
    script: WORLD + HOLDER + BOOKS + ACQUIRE + RUNS + 'return answers',
    shared: ['redlock:young', 'redlock:old'],
    ...LOCKS,
  },
  {
    name: 'lagged mark, early record',
    script: WORLD + HOLDER + MARK + RECORD + ACQUIRE + RUNS + WRITE_MARK,
    shared: ['redlock:mark'],
    ...LOCKS,
    hasRecords: true,
  },
  {
    name: 'lagged mark, tombstone',
    script: WORLD + MARK + TOMBSTONE + ACQUIRE + RUNS + WRITE_MARK,
    shared: ['redlock:mark'],
    ...LOCKS,
  },
  {
    name: 'one mark without lag',
    script: WORLD + HOLDER + MARK + WATERMARK + ACQUIRE + RUNS + WRITE_MARK,
    shared: ['redlock:mark'],
    ...LOCKS,
  },
];
