// One Redis server for all tests of a spec file, and a client of the tests beside the locks' own.
// A file that imports them has them from its first `beforeAll` on. They end after its last test
// and the `afterAll` of its groups, before the file's own `afterAll`.
import { afterAll, beforeAll } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';

import { afterTest } from './after-test.js';
import { startRedisServer, type RedisServer } from './redis-servers.js';

/** A server that is this spec file's alone. What a test changes in it, the test puts right. */
export let server: RedisServer;

/** Connected to {@link server}, with the options of ioredis as they are by default. */
export let client: Redis;

beforeAll(async () => {
  server = await startRedisServer();
  client = new Redis(server.url);
});

/** Another client of {@link server}, which ends with the test. */
export function connect(options: Partial<RedisOptions> = {}): Redis {
  const made = client.duplicate(options);
  // On one that has ended, it would start a timer of 2 s, which nothing clears.
  afterTest(() => made.status === 'end' || made.disconnect());
  return made;
}

afterAll(async () => {
  client.disconnect();
  await server.stop();
});
