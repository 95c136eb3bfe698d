// What the locks of a torture run guard: a register fenced by the token, and a counter that relies
// on the lock alone. They are in a server that has no faults, which logs each write in order.
import { Redis } from 'ioredis';

import type { CounterWrite, RegisterWrite } from './history-check.js';

/** A client of the store. */
export class GuardedStore {
  readonly #client: Redis;

  constructor(url: string) {
    this.#client = new Redis(url);
  }

  /**
   * Adds one to the register of a resource, in two steps, as an application does. Reading
   * registers the token: from then on smaller ones are refused. False where it was refused.
   */
  async addFenced(resource: string, token: number): Promise<boolean> {
    const key = `register:${resource}`;
    const read = await this.#client.eval(READ_FENCED, 1, key, token);
    if (typeof read !== 'number') return false;
    const entry: RegisterWrite = { token, read, written: read + 1 };
    const keys = [key, `${key}:log`] as const;
    return (await this.#client.eval(WRITE_FENCED, 2, ...keys, token, JSON.stringify(entry))) === 1;
  }

  /** Adds one to the counter of a resource, in two steps. Nothing refuses it. */
  async add(resource: string, increment: string): Promise<void> {
    const key = `counter:${resource}`;
    const read = Number((await this.#client.get(key)) ?? 0);
    const entry: CounterWrite = { increment, read, written: read + 1 };
    await this.#client
      .multi()
      .set(key, entry.written)
      .rpush(`${key}:log`, JSON.stringify(entry))
      .exec();
  }

  /** The writes to all registers, in the order in which they were accepted. */
  registers(): Promise<Record<string, RegisterWrite[]>> {
    return this.#logs<RegisterWrite>('register');
  }

  /** The writes to all counters, in the order in which they came. */
  counters(): Promise<Record<string, CounterWrite[]>> {
    return this.#logs<CounterWrite>('counter');
  }

  async close(): Promise<void> {
    await this.#client.quit();
  }

  async #logs<Entry>(kind: string): Promise<Record<string, Entry[]>> {
    const logs: Record<string, Entry[]> = {};
    for (const key of await this.#client.keys(`${kind}:*:log`)) {
      const lines = await this.#client.lrange(key, 0, -1);
      const resource = key.slice(kind.length + 1, -':log'.length);
      logs[resource] = lines.map((line) => JSON.parse(line) as Entry);
    }
    return logs;
  }
}

// KEYS: the register. ARGV: the token.
const READ_FENCED = `
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < fence then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return tonumber(redis.call('HGET', KEYS[1], 'value') or '0')
`;

// KEYS: the register, its log. ARGV: the token, what is logged.
const WRITE_FENCED = `
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < fence then return 0 end
redis.call('HSET', KEYS[1], 'value', cjson.decode(ARGV[2]).written)
redis.call('RPUSH', KEYS[2], ARGV[2])
return 1
`;
