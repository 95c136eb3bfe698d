import { Logger } from '@nestjs/common';
import { Redis } from 'ioredis';

import { FencedStore, StaleTokenError } from './fenced-store.js';

/** A store in a Redis that all replicas reach. */
export class RedisStore extends FencedStore {
  readonly #redis: Redis;

  constructor(url: string) {
    super();
    // A command may be sent again after a reconnect; with a token as its condition that is safe.
    this.#redis = new Redis(url);
    const logger = new Logger(RedisStore.name);
    this.#redis.on('error', (error: Error) => logger.warn(error.message));
  }

  async read(name: string, token: number): Promise<number | null> {
    const [value = null] = await this.#run(token, [name], []);
    return toNumber(value);
  }

  async write(values: Readonly<Record<string, number>>, token: number): Promise<void> {
    await this.#run(token, Object.keys(values), Object.values(values));
  }

  async peek(name: string): Promise<number | null> {
    return toNumber(await this.#redis.hget(VALUES, name));
  }

  async names(): Promise<string[]> {
    return (await this.#redis.hkeys(VALUES)).sort();
  }

  async seed(values: Readonly<Record<string, number>>): Promise<void> {
    const entries = Object.entries(values);
    await Promise.all(entries.map(([name, value]) => this.#redis.hsetnx(VALUES, name, value)));
  }

  async overwrite(name: string, value: number): Promise<void> {
    await this.#redis.hset(VALUES, name, value);
  }

  async close(): Promise<void> {
    await this.#redis.quit();
  }

  async #run(
    token: number,
    names: readonly string[],
    values: readonly number[],
  ): Promise<(string | null)[]> {
    const reply = (await this.#redis.eval(
      ...[FENCED, 2, VALUES, TOKENS],
      ...[token, names.length, ...names, ...values],
    )) as (string | null)[] | null;
    if (reply === null) throw new StaleTokenError(token);
    return reply;
  }
}

const VALUES = 'sample-app-store:values';
const TOKENS = 'sample-app-store:tokens';

// A script, because the comparison and the write must be one step: between two commands a newer
// holder could slip in. Arguments: token, number of names, names, values (none for a read).
const FENCED = `
  local token, count = ARGV[1], tonumber(ARGV[2])
  for i = 3, count + 2 do
    local newest = redis.call('HGET', KEYS[2], ARGV[i])
    if newest and tonumber(newest) > tonumber(token) then return false end
  end
  for i = 3, count + 2 do
    redis.call('HSET', KEYS[2], ARGV[i], token)
    if ARGV[i + count] then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + count]) end
  end
  return redis.call('HMGET', KEYS[1], unpack(ARGV, 3, count + 2))
`;

function toNumber(value: string | null): number | null {
  return value === null ? null : Number(value);
}
