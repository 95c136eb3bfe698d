// Ways for a node to remember tokens, as batch scripts: what docs/FENCING-COSTS.md compares.
// The forms of PROTOCOL.md section 8, present and past, are the library's own script. The marks are
// prototypes: they take runs of acquisitions and releases of one lock each, without quarantine.
import type { World } from '../../lib/core/lock-node.js';
import { resolveOptions } from '../../lib/core/options.js';
import { fencesIn } from '../../lib/nodes/redis-fences.js';
import { sharedKeys } from '../../lib/nodes/redis-script-arguments.js';
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';

/** What a node is called with for each lock: its key, and its early record where there is one. */
export interface Form {
  readonly name: string;
  readonly script: string;
  readonly world: World;
  /** The keys that come before those of the locks. */
  readonly shared: readonly string[];
  readonly hasEarlyRecords: boolean;
}

const fenced = worldWith(true);
const unfenced = worldWith(false);

/** Replaces two functions of the library: each record is a key, under a ttl of R. */
const KEY_PER_RESOURCE = `
fencesOf = function(first, last)
  local records = {}
  for i = first, last do records[#records + 1] = 'redlock:fence:' .. KEYS[i] end
  local fences = redis.call('MGET', unpack(records))
  for n = 1, #fences do fences[n] = 0 + (fences[n] or 0) end
  return fences
end
remember = function(fields)
  for n = 1, #fields, 2 do
    redis.call('SET', 'redlock:fence:' .. fields[n], fields[n + 1], 'PX', ${fenced.fenceRetention})
  end
end
`;

const BEGIN = `
local KEYS, ARGV, redis, tonumber = KEYS, ARGV, redis, tonumber
local skew = ${fenced.clockSkewMax * 1_000}
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
local function releaseRun(first, owners, tokens)
  local keys, listed = {}, {}
  for n = 1, #owners do keys[n] = KEYS[first + (n - 1) * step] end
  local holders = redis.call('MGET', unpack(keys))
  for n = 1, #owners do
    local key, token = keys[n], tokens[n]
    if holders[n] ~= owners[n] then
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

local runs, first = {acquire = acquireRun, release = releaseRun}, start
for argument = 2, #ARGV do
  local name, figure, _, owners, tokens = unpack(cjson.decode(ARGV[argument]))
  runs[name](first, owners, tokens, figure)
  first = first + #owners * step
end
`;

// `low` of a lock is what its form says; `keep` remembers a token that was accepted.
const ACQUIRE = `
local function acquireRun(first, owners, tokens, ttl)
  local found = redis.call('MGET', unpack(KEYS, first, first + #owners * step - 1))
  local taken = {}
  for place = 1, #owners do
    local n = (place - 1) * step + 1
    local key, token, lowest = KEYS[first + n - 1], 0 + tokens[place], lowOf(found, n)
    if lowest < low then lowest = low end
    local vote = (isHolder(found[n]) or taken[key]) and 'taken' or refusal(token, lowest)
    if not vote then
      redis.call('SET', key, owners[place], 'PX', ttl)
      taken[key] = true
      keep(first + n, tokens[place], token)
    end
    answered = answered + 1
    answers[answered] = vote and {vote, lowest} or 0
  end
end
`;

const HOLDER = `
local function isHolder(holder) return holder end
`;

/** KEYS[1]: the highest tokens of long ago, of the last epoch and of this one, and its number. */
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

const EARLY_RECORD = `
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

const mark = { world: fenced, shared: ['redlock:mark'], hasEarlyRecords: false } as const;

/** In the order of the tables. */
export const forms: readonly Form[] = [
  libraryForm('no fencing', unfenced),
  libraryForm('two hashes (section 8)', fenced),
  libraryForm('key per resource', fenced, KEY_PER_RESOURCE),
  {
    ...mark,
    name: 'lagged mark, early record',
    script: BEGIN + HOLDER + MARK + EARLY_RECORD + ACQUIRE + RUNS + WRITE_MARK,
    hasEarlyRecords: true,
  },
  {
    ...mark,
    name: 'lagged mark, tombstone',
    script: BEGIN + MARK + TOMBSTONE + ACQUIRE + RUNS + WRITE_MARK,
  },
  {
    ...mark,
    name: 'one mark without lag',
    script: BEGIN + HOLDER + MARK + WATERMARK + ACQUIRE + RUNS + WRITE_MARK,
  },
];

function worldWith(fencing: boolean): World {
  return resolveOptions({ fencing, quarantine: false }, 3).world;
}

/** `instead` follows the library's functions for fence records, and so replaces them. */
function libraryForm(name: string, world: World, instead = ''): Form {
  const script = scriptsOf(world, false).batch.text;
  const own = fencesIn(fenced);
  return {
    name,
    script: script.replace(own, () => own + instead),
    world,
    shared: sharedKeys(world),
    hasEarlyRecords: false,
  };
}
