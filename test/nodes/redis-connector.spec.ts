// How often the name of a host is looked up while no name server answers.
import { beforeEach, describe, expect, it, jest } from '@jest/globals';

import dns, { type LookupAddress } from 'node:dns';
import { createConnection } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { AbstractConnector, type RedisOptions } from 'ioredis';

import type { LockNode } from '../../lib/core/lock-node.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { worldOf } from '../support/node-harness.js';
import { startServer } from '../support/servers-of-test.js';
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
    const node = waitOn({ port: 1, ...options });
    await eventually(() => node.status().state === 'down');

    // For several attempts, of two connections.
    await sleep(1_500);

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

const ADDRESSES = [{ address: '127.0.0.1', family: 4 }];
