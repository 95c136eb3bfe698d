// A server's scripts and their model, compared operation by operation.
import { expect } from '@jest/globals';

import { TOKENS_PER_BLOCK } from '../../../lib/core/fencing.js';
import {
  readAcquired,
  readCertified,
  readExtended,
  readInspected,
  readReleased,
} from '../../../lib/nodes/redis-replies.js';
import {
  certifyArguments,
  inspectArguments,
  ownerArguments,
} from '../../../lib/nodes/redis-script-arguments.js';
import { inspectScript, scriptsOf, type RedisScripts } from '../../../lib/nodes/redis-scripts.js';
import { NOBODY, type ReleaseRequest, type Told, type World } from '../../../lib/core/lock-node.js';
import { client } from '../../support/redis-of-spec.js';
import { saidIn, TAG } from '../../support/scripts-at.js';
import { replidOf } from '../../support/server-info.js';
import { evaluate, microseconds } from './script-evaluation.js';
import type { Random } from '../random.js';
import { OutOfMemory, ScriptModel, type ScriptMoment, type StoredValue } from '../script-model.js';

const RESOURCES = ['a', 'b', 'c'];
/** The resource that somebody waits for. */
export const LISTENED = 'b';
const OWNERS = ['first', 'second', 'third'];
/**
 * Whole ms, and the clock that expiry goes by stands still while a script runs, TIME does not: on
 * a busy machine they are as far apart as the script took.
 */
const TOLERANCE = 3;

/** The same operations on a server and on the model, whose clock is what the server said. */
export class ScriptComparison {
  /** Each kind of vote, and how many listeners releases told. */
  readonly answers = new Set<string>();
  readonly #model = new ScriptModel();
  #isPersistent = false;
  #isFull = false;
  #replid = '';
  #stallMax = 0;

  constructor(
    private readonly world: World,
    private readonly random: Random,
  ) {}

  async start(): Promise<void> {
    await this.#fill(false);
    await this.#flush();
  }

  async #flush(): Promise<void> {
    await client.flushall();
    this.#model.data.clear();
    this.#stallMax = 0;
    this.#replid = await replidOf(client);
  }

  get #scripts(): RedisScripts {
    return scriptsOf(this.world, this.#isPersistent);
  }

  async step(): Promise<void> {
    const draw = this.random.next();
    if (draw < 0.01) await this.#flush();
    else if (draw < 0.02) await this.#forgeCertificate();
    else if (draw < 0.05) await this.#fill(!this.#isFull);
    else if (draw < 0.1) this.#isPersistent = this.random.chance(0.3);
    else if (draw < 0.2) await sleep(this.random.integer(1, 100));
    else await this.#operate();
    await this.#compareData();
  }

  async #operate(): Promise<void> {
    const kinds = [
      'acquire',
      'acquire',
      'extend',
      'extend',
      'release',
      'inspect',
      'certify',
    ] as const;
    const kind = this.random.pick(kinds);
    if (kind === 'certify') return this.#certify();
    if (kind === 'inspect') return this.#inspect();
    const request = this.#drawRequest(await microseconds());
    const isListening = this.random.chance(0.5);
    const args = ownerArguments(TAG, { name: kind, request, isListening });
    const { now, took, reply } = await evaluate(this.#scripts[kind].text, args);
    if (this.#isAmbiguous(now, took)) return this.#flush();
    const real = reply === 'oom' ? 'oom' : read[kind](saidIn(reply));
    const model = this.#askModel(kind, request, isListening, this.#moment(now));
    if (typeof real === 'object' && 'remaining' in real) {
      expect(Math.abs(real.remaining - remainingOf(model))).toBeLessThanOrEqual(this.#tolerance);
      expect({ ...real, remaining: 0 }).toEqual({ ...Object(model), remaining: 0 });
    } else expect(real).toEqual(model);
    this.#note(real);
  }

  #note(answer: 'oom' | ({ readonly vote: string } & Partial<Told>)): void {
    if (typeof answer === 'object' && answer.listeners !== undefined) {
      this.answers.add(`told ${answer.listeners}, ${answer.overdue} overdue`);
    }
    if (answer === 'oom') this.answers.add('oom');
    else this.answers.add('isAhead' in answer && answer.isAhead === true ? 'ahead' : answer.vote);
  }

  #askModel(
    kind: 'acquire' | 'extend' | 'release',
    request: ReleaseRequest,
    isListening: boolean,
    moment: ScriptMoment,
  ) {
    try {
      if (kind === 'release') return this.#model.release(request, isListening, moment);
      return this.#model[kind](request, moment);
    } catch (error) {
      if (error instanceof OutOfMemory) return 'oom';
      throw error;
    }
  }

  async #certify(): Promise<void> {
    const args = certifyArguments(this.world, 3);
    const { now, took, reply } = await evaluate(this.#scripts.certify.text, args);
    if (this.#isAmbiguous(now, took)) return this.#flush();
    const certified = readCertified(reply);
    const model = this.#model.certify(this.world, this.#moment(certified?.nodeTime ?? 0));
    expect(certified?.quarantineRemaining).toBe(model);
    this.answers.add('certified');
  }

  async #inspect(): Promise<void> {
    const resource = this.random.pick(RESOURCES);
    const args = inspectArguments(this.world, resource);
    const { now, took, reply } = await evaluate(inspectScript(this.world).text, args);
    if (this.#isAmbiguous(now, took)) return this.#flush();
    const real = readInspected(reply);
    const model = this.#model.inspect(this.world, resource, this.#moment(now));
    expect({ ...real, remaining: 0 }).toEqual({ ...model, remaining: 0 });
    expect(Math.abs(remainingOf(real) - remainingOf(model))).toBeLessThanOrEqual(this.#tolerance);
    this.answers.add(real.vote);
  }

  #drawRequest(now: number): ReleaseRequest {
    const { random, world } = this;
    const first = random.integer(0, 2);
    const resources = RESOURCES.slice(first, first + random.integer(1, 2));
    const range = world.clockSkewMax * 1_000 * 1.4;
    const token = Math.floor(now + (random.next() * 2 - 1) * range);
    const recorded = this.#model.fenceOf(world, resources[0] ?? '', this.#moment(now));
    return {
      world,
      resources,
      ownerId: random.pick(OWNERS),
      // At the very borders of what is accepted, too.
      token: !world.fencing ? 0 : random.chance(0.3) ? this.#drawBorder(recorded) : token,
      ttl: random.integer(100, 300),
      wakes: random.chance(0.5),
    };
  }

  #drawBorder(recorded: number): number {
    if (this.random.chance(0.5)) return recorded + this.random.integer(0, 2);
    const block = Math.floor(recorded / TOKENS_PER_BLOCK) + this.random.integer(0, 1);
    return (block + 1) * TOKENS_PER_BLOCK - 1;
  }

  // A certificate of another run of the server, or one from the future.
  async #forgeCertificate(): Promise<void> {
    const key = `${this.world.keyPrefix}redlock:node`;
    if (this.#isFull) return;
    const birth = (await microseconds()) + this.random.pick([-500_000, 900_000, 1_200_000]);
    const value = `${this.random.chance(0.5) ? this.#replid : 'another'}:${birth}`;
    await client.set(key, value);
    this.#model.data.set(key, { value, expiresAt: Infinity });
  }

  async #fill(isFull: boolean): Promise<void> {
    await client.config('SET', 'maxmemory', isFull ? '1' : '0');
    this.#isFull = isFull;
  }

  #moment(now: number): ScriptMoment {
    const server = { replid: this.#replid, isPersistent: this.#isPersistent, isFull: this.#isFull };
    const told = { listeners: 1, overdue: 1 };
    const tell: ScriptMoment['tell'] = (_, resource, isOwn) =>
      resource === LISTENED && !isOwn ? told : NOBODY;
    return { now, ...server, tell };
  }

  // A server counts a ttl from the time of its last look at the clock, not from the script's: near
  // the end, and by as much as the machine stood still, a key may be gone for one of the two alone.
  #isAmbiguous(now: number, took: number): boolean {
    this.#stallMax = Math.max(this.#stallMax, took);
    const isNear = ({ expiresAt }: StoredValue): boolean =>
      Math.abs(expiresAt - now / 1_000) <= this.#tolerance;
    return [...this.#model.data.values()].some(isNear);
  }

  get #tolerance(): number {
    return TOLERANCE + this.#stallMax;
  }

  // In one step with its time: between two commands a key may expire.
  async #compareData(): Promise<void> {
    const startedAt = performance.now();
    const [now, ...entries] = (await client.eval(LIST_ALL, 0)) as [number, ...Entry[]];
    this.#stallMax = Math.max(this.#stallMax, performance.now() - startedAt);
    const millisecond = Math.floor(now / 1_000);
    const isNear = (key: string): boolean => {
      const expiresAt = this.#model.data.get(key)?.expiresAt ?? -Infinity;
      return Math.abs(expiresAt - millisecond) <= this.#tolerance;
    };
    const real = entries.map(([key, value, left]) => {
      return { key, value: readable(value), expiresAt: left < 0 ? Infinity : millisecond + left };
    });
    const live = [...this.#model.data].filter(([, { expiresAt }]) => expiresAt >= millisecond);
    const model = live.map(([key, { value, expiresAt }]) => {
      return {
        key,
        value: readable(typeof value === 'string' ? value : [...value].flat()),
        expiresAt,
      };
    });
    const compared = (stored: typeof real): typeof real =>
      stored.filter(({ key }) => !isNear(key)).sort((a, b) => (a.key < b.key ? -1 : 1));
    const [found, expected] = [compared(real), compared(model)];
    const withoutTime = (stored: typeof real): string[] =>
      stored.map(({ key, value }) => `${key} = ${value}`);
    expect(withoutTime(found)).toEqual(withoutTime(expected));
    found.forEach(({ expiresAt }, index) => {
      const difference = expiresAt - (expected[index]?.expiresAt ?? NaN);
      if (expiresAt !== Infinity) expect(Math.abs(difference)).toBeLessThanOrEqual(this.#tolerance);
      else expect(expected[index]?.expiresAt).toBe(Infinity);
    });
  }
}

/** Of a hash, the fields and their values in turn. */
type Entry = [key: string, value: string | string[], left: number];

// Redis has the fields of a hash in no order.
function readable(value: Entry[1]): string {
  if (typeof value === 'string') return value;
  const fields = value.flatMap((name, index) =>
    index % 2 === 0 ? [`${name}: ${value[index + 1]}`] : [],
  );
  return fields.sort().join(', ');
}

/** The time, and all keys with their values and what is left of them. */
const LIST_ALL = `
local time = redis.call('TIME')
local all = {time[1] * 1000000 + time[2]}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local read = redis.call('TYPE', key).ok == 'hash' and 'HGETALL' or 'GET'
  all[#all + 1] = {key, redis.call(read, key), redis.call('PTTL', key)}
end
return all`;

const read = { acquire: readAcquired, extend: readExtended, release: readReleased };

function remainingOf(answer: unknown): number {
  return (answer as { remaining?: number }).remaining ?? NaN;
}

function sleep(delay: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delay);
  });
}
