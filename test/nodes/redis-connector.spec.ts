// How often the name of a host is looked up while no name server answers, and how a connection ends
// that has just begun.
import { beforeEach, describe, expect, it, jest } from '@jest/globals';

import dns, { type LookupAddress } from 'node:dns';
import { createConnection, Socket } from 'node:net';

import { AbstractConnector, Redis, type RedisOptions } from 'ioredis';

import type { LockNode } from '../../lib/core/lock-node.js';
import { sharingLookup } from '../../lib/nodes/redis-connector.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { worldOf, type TestNodes } from '../support/node-harness.js';
import { sent, startNodes, startServer } from '../support/servers-of-test.js';
import { create } from './created-nodes.js';

type OnAnswer = (error: Error | null, addresses: LookupAddress[]) => void;

/** From now on each look-up of a name is done by this. */
function lookUpBy(ask: (onAnswer: OnAnswer) => void): void {
  const lookup = (_host: string, _options: object, onAnswer: OnAnswer): void => ask(onAnswer);
  const spy = jest.spyOn(dns, 'lookup').mockImplementation(lookup as unknown as typeof dns.lookup);
  afterTest(() => spy.mockRestore());
}

describe('while no name server answers, a node', () => {
  const unanswered: OnAnswer[] = [];

  beforeEach(() => {
    unanswered.length = 0;
    lookUpBy((onAnswer) => unanswered.push(onAnswer));
  });

  /** Somebody waits for a lock on a node that is called `a.test`. */
  function waitOn(options: RedisOptions): LockNode {
    const [node] = create([{ host: 'a.test', ...options }], { stallTimeout: 100 }).nodes;
    if (node === undefined) throw new Error('There is no node');
    node.listen(worldOf(), 'r', { onLive: () => undefined, onWake: () => undefined });
    return node;
  }

  it.each([
    ['', {}],
    [' over TLS', { tls: {} }],
  ])('is looked up once%s, however often it is connected anew', async (_, options) => {
    const connect = jest.spyOn(Redis.prototype, 'connect');
    afterTest(() => connect.mockRestore());
    waitOn({ port: 1, ...options });

    // Several of each of two connections: all but the last two have looked the name up by then.
    await eventually(() => connect.mock.calls.length > 6, 60_000);

    expect(unanswered).toHaveLength(1);
  });

  it('is connected soon after one does again', async () => {
    const { port } = await startServer();
    const node = waitOn({ port });
    await eventually(() => node.status().state === 'down');

    const answers = unanswered.splice(0);
    lookUpBy((onAnswer) => setImmediate(onAnswer, null, ADDRESSES));
    for (const answer of answers) answer(null, ADDRESSES);

    await eventually(() => node.status().state === 'up');
  });

  it('is connected where the application has a look-up of its own that throws, then answers at once', async () => {
    const { port } = await startServer();
    lookUpBy(() => {
      throw new Error('no names today');
    });
    const node = waitOn({ port });
    await eventually(() => node.status().state === 'down');

    lookUpBy((onAnswer) => onAnswer(null, ADDRESSES));

    await eventually(() => node.status().state === 'up');
  });

  it("is left to the application's own look-up, if it has one for TLS", () => {
    const lookup = (): void => undefined;

    const options = sharingLookup({ tls: { lookup } });

    expect(options().tls).toEqual({ lookup });
  });

  it("is left to the application's own connector, if it has one", async () => {
    const { port } = await startServer();
    class Tunnel extends AbstractConnector {
      constructor() {
        super(0);
      }

      override connect() {
        return Promise.resolve(createConnection({ port, host: '127.0.0.1' }));
      }
    }

    const node = waitOn({ Connector: Tunnel });
    await eventually(() => node.status().state === 'up');

    expect(unanswered).toEqual([]);
  });
});

describe('a connection', () => {
  /** The sockets that connect to `port` from now on: those of other tests may connect, too. */
  function watchSockets(port: number): () => Socket[] {
    const connect = jest.spyOn(Socket.prototype, 'connect');
    afterTest(() => connect.mockRestore());
    const isToPort = (_socket: unknown, index: number): boolean =>
      JSON.stringify(connect.mock.calls[index]).includes(`"port":${port},`);
    return () => (connect.mock.contexts as Socket[]).filter(isToPort);
  }

  it.each([0, 1, 2, 3, 4, 5])(
    'is ended also where its node is closed %i microtasks after it was begun',
    async (count) => {
      const { port } = await startServer();
      const sockets = watchSockets(port);
      const { close } = create([{ host: '127.0.0.1', port }]);

      for (let passed = 0; passed < count; passed += 1) await Promise.resolve();
      await close();
      await sent();

      expect(sockets().map(({ destroyed }) => destroyed)).toEqual([true]);
    },
  );

  it('to where no way leads says so, also where that is known before ioredis listens', async () => {
    // Microtasks, in which ioredis gets the stream, come after all such callbacks.
    const { log } = await new Promise<TestNodes>((resolve) =>
      process.nextTick(() => resolve(startNodes([{ host: '255.255.255.255' }]))),
    );

    const { message } = await log.untilState('down');
    expect(message).toMatch(/^connect E\w+ 255\.255\.255\.255/);
  });
});

const ADDRESSES = [{ address: '127.0.0.1', family: 4 }];
