// What the servers report about themselves.
import { Redis } from 'ioredis';

/** Totals of all servers since they started. */
export interface RedisReading {
  /** User and system time, in ms. */
  readonly cpu: number;
  /** Commands executed, including those that scripts call. */
  readonly commands: number;
}

/** Asks over connections of its own. */
export class RedisMeter {
  readonly #clients: readonly Redis[];

  constructor(urls: readonly string[]) {
    this.#clients = urls.map((url) => new Redis(url));
    for (const client of this.#clients) client.on('error', () => undefined);
  }

  async read(): Promise<RedisReading> {
    const readings = await Promise.all(this.#clients.map((client) => readServer(client)));
    return {
      cpu: readings.reduce((total, { cpu }) => total + cpu, 0),
      commands: readings.reduce((total, { commands }) => total + commands, 0),
    };
  }

  /** Counts, for each of `keys`, how many servers have it. */
  async countCopies(keys: readonly string[]): Promise<number[]> {
    const answers = await Promise.all(this.#clients.map((client) => findKeys(client, keys)));
    return keys.map((_key, index) => answers.filter((found) => found[index] === true).length);
  }

  async version(): Promise<string> {
    const info = (await this.#clients[0]?.info('server')) ?? '';
    const name = fieldOf(info, 'server_name') || 'redis';
    return `${name} ${fieldOf(info, `${name}_version`) || fieldOf(info, 'redis_version')}`;
  }

  close(): void {
    for (const client of this.#clients) client.disconnect();
  }
}

async function readServer(client: Redis): Promise<RedisReading> {
  const [cpu, stats] = await Promise.all([client.info('cpu'), client.info('stats')]);
  const seconds = Number(fieldOf(cpu, 'used_cpu_user')) + Number(fieldOf(cpu, 'used_cpu_sys'));
  return { cpu: seconds * 1_000, commands: Number(fieldOf(stats, 'total_commands_processed')) };
}

async function findKeys(client: Redis, keys: readonly string[]): Promise<boolean[]> {
  const pipeline = client.pipeline();
  for (const key of keys) pipeline.exists(key);
  const replies = (await pipeline.exec()) ?? [];
  return replies.map(([, reply]) => reply === 1);
}

function fieldOf(info: string, name: string): string {
  return new RegExp(`^${name}:([^\\r\\n]*)`, 'm').exec(info)?.[1] ?? '';
}
