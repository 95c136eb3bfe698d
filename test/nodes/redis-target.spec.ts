// The options by which a node's server is reached: what is the application's in them, and what is
// ours.
import { describe, expect, it } from '@jest/globals';

import type { Redis, RedisOptions } from 'ioredis';

import { targetOfClient, targetOfOptions, type RedisTarget } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { idleClient } from './created-nodes.js';

/** What an application may have set, each the opposite of what locks need. */
const overruled = {
  enableOfflineQueue: true,
  autoResendUnfulfilledCommands: true,
  maxRetriesPerRequest: null,
  enableReadyCheck: true,
  enableAutoPipelining: true,
  autoResubscribe: true,
  readOnly: true,
  failoverDetector: true,
  monitor: true,
  stringNumbers: true,
  protocol: 3,
  commandTimeout: 9,
  socketTimeout: 9,
  sentinelCommandTimeout: 9,
  reconnectOnError: () => 2,
  retryStrategy: () => 9,
  sentinelRetryStrategy: () => 9,
  keyPrefix: 'app:',
} as const satisfies RedisOptions;

const required: RedisOptions = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableReadyCheck: false,
  enableAutoPipelining: false,
  autoResubscribe: false,
  readOnly: false,
  failoverDetector: false,
  monitor: false,
  stringNumbers: false,
  protocol: 2,
  commandTimeout: undefined,
  socketTimeout: undefined,
  sentinelCommandTimeout: 1_000,
  reconnectOnError: null,
  keyPrefix: '',
};

describe('a connection', () => {
  function connect(target: RedisTarget): Redis {
    const client = target.connect().on('error', () => undefined);
    afterTest(() => client.disconnect());
    return client;
  }

  it.each([
    ['options', (options: RedisOptions) => targetOfOptions(options, 'app:', 'a node')],
    ['a client', (options: RedisOptions) => targetOfClient(idleClient(options), 'app:', 'a node')],
  ])('by %s overrules what could send a command late, twice or otherwise', (_, targetOf) => {
    const given = { connectionName: 'own', connectTimeout: 7_000, keepAlive: 8_000 };
    const target = targetOf({ ...given, ...overruled, host: '127.0.0.1', port: 1 });

    const { options } = connect(target);

    expect(options).toMatchObject({ ...given, ...required });
    expect(options.retryStrategy?.(1)).toBeNull();
    expect(options.sentinelRetryStrategy?.(1)).toBeNull();
  });

  it('asks another one of its Sentinels first each time', () => {
    const sentinels = ['127.0.0.1', '127.0.0.2', '127.0.0.3'].map((host) => ({ host, port: 1 }));
    const target = targetOfOptions({ sentinels, name: 'main' }, '', 'the node');

    const asked = [1, 2, 3, 4].map(() => connect(target).options.sentinels);

    const [a, b, c] = sentinels;
    expect(asked).toEqual([sentinels, [b, c, a], [c, a, b], sentinels]);
  });

  it('shows in the list of clients as ours, where it is given no name', () => {
    const target = targetOfOptions({ host: '127.0.0.1', port: 1 }, '', 'the node');

    expect(connect(target).options.connectionName).toBe('nestjs-locked');
  });
});
