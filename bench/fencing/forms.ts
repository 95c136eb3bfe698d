// Ways for a node to remember tokens, as batch scripts: what docs/FENCING-COSTS.md compares.
// Prototypes. They take runs of acquisitions and releases of one lock each, without quarantine.
import { resolveOptions } from '../../lib/core/options.js';
import { scriptsOf, WORDS_OF } from '../../lib/nodes/redis-scripts.js';

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
local low, high = now - skew, now + skew
local answers, answered = {now}, 1

local function refusal(token, lowest)
  if token <= lowest then return 'stale' end
  if token > math.max(high, lowest + 1) then return 'ahead' end
end
`;

const RUNS = `
local function releaseRun(first, many, words)
  local keys, channels, listed = {}, {}, {}
  for n = 1, many do keys[n] = KEYS[first + (n - 1) * step] end
  local holders = redis.call('MGET', unpack(keys))
  for n = 1, many do
    local key, token = keys[n], words[many + n]
    if holders[n] ~= words[n] then
      bury(key, token)
    elseif let(key, token, first + (n - 1) * step) then
      listed[#listed + 1] = key
    end
    answered = answered + 1
    answers[answered] = 0
  end
  if #listed > 0 then redis.call('DEL', unpack(listed)) end
  redis.call('PUBSUB', 'NUMSUB', 'redlock:wake:')
end

${WORDS_OF}
local runs, first = {acquire = acquireRun, release = releaseRun}, start
for _, run in ipairs(ARGV) do
  local name, figure, rest = string.match(run, '^(%a+) (%d+) %d+ (.+)$')
  local words, count = wordsOf(rest)
  runs[name](first, count / 2, words, figure)
  first = first + count / 2 * step
end
`;

// `low` of a lock is what its form says; `keep` remembers a token that was accepted.
const ACQUIRE = `
local function acquireRun(first, many, words, ttl)
  local found = redis.call('MGET', unpack(KEYS, first, first + many * step - 1))
  local taken = {}
  for place = 1, many do
    local n = (place - 1) * step + 1
    local key, token, lowest = KEYS[first + n - 1], 0 + words[many + place], lowOf(found, n)
    if lowest < low then lowest = low end
    local vote = (isHolder(found[n]) or taken[key]) and 'taken' or refusal(token, lowest)
    if not vote then
      redis.call('SET', key, words[place], 'PX', ttl)
      taken[key] = true
      keep(first + n, words[many + place], token)
    end
    answered = answered + 1
    answers[answered] = vote and {vote, lowest} or 0
  end
end
`;

const HOLDER = `
local function isHolder(holder) return holder end
`;

const RECORDS = `
local step, start = 2, 1
local function lowOf(found, n) return 0 + (found[n + 1] or 0) end
local function keep(at, digits) redis.call('SET', KEYS[at], digits, 'PX', retention) end
local function bury() end
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
local function lowOf(found, n) return math.max(old, found[n + 1] or 0) end
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
local function lowOf(found, n)
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
    name: 'two hashes (section 8)',
    script: libraryBatch(true),
    shared: ['redlock:fences:even', 'redlock:fences:odd'],
    ...LOCKS,
  },
  {
    name: 'key per resource',
    script: `${WORLD}${HOLDER}${RECORDS}${ACQUIRE}${RUNS}return answers`,
    shared: [],
    ...LOCKS,
    hasRecords: true,
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
