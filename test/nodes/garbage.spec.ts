// What V8 keeps of locks that have ended, where many are on their way at once. It is asked to
// collect young objects only, as it does many times a second: what is left then waits for a full
// collection, and costs time to be copied and marked.
import { describe, expect, it, jest } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { Redlock } from '../../lib/core/redlock.js';
import { RedisConnection, type OnReply } from '../../lib/nodes/redis-connection.js';
import { afterTest } from '../support/after-test.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { eventually, testNodes } from '../support/node-harness.js';
import { connect } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';

const CALLERS = 512;
/** Of each caller, until V8 has compiled what runs often and has made up its mind about it. */
const WARM_UP_TURNS = 100;
const TURNS = 100;
const ROUNDS = 3;

/** Bytes per lock; an acquisition and its release make some 10,000. */
const KEPT_MAX = 700;

async function startRedlock(): Promise<Redlock> {
  const servers = await Promise.all([1, 2, 3].map(() => startRedisServer()));
  for (const server of servers) afterTest(() => server.stop());
  const options = { quarantine: false, fencing: false };
  const nodes = testNodes(
    servers.map(({ url }) => url),
    options,
  );
  afterTest(() => nodes.close());
  await nodes.whenReady(5_000);
  return new Redlock(nodes.nodes, options);
}

/** Every caller acquires and releases a lock of its own, so many times. */
async function takeTurns(redlock: Redlock, turns: number): Promise<void> {
  const call = async (caller: number): Promise<void> => {
    for (let turn = 0; turn < turns; turn += 1) {
      const lock = await redlock.acquire(`caller:${caller}`, 10_000);
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
}

/** Bytes per lock that collections of young objects have left. */
async function keptOf(redlock: Redlock): Promise<number> {
  const before = process.memoryUsage().heapUsed;
  await takeTurns(redlock, TURNS);
  // One that survived the first, for it was young then, ends with the second.
  collectGarbage({ type: 'minor' });
  collectGarbage({ type: 'minor' });
  return (process.memoryUsage().heapUsed - before) / (CALLERS * TURNS);
}

describe('locks that have ended', () => {
  it('are collected while they are young', async () => {
    const redlock = await startRedlock();
    await takeTurns(redlock, WARM_UP_TURNS);
    collectGarbage();

    const kept: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) kept.push(await keptOf(redlock));

    // A full collection that V8 has begun in a round only makes it less.
    expect(Math.max(...kept)).toBeLessThan(KEPT_MAX);
  }, 60_000);
});

/** Asks for a reply; gives the reply, and who asked. */
function ask(connection: RedisConnection): [Promise<unknown>, WeakRef<OnReply>] {
  let onReply: OnReply = () => undefined;
  const reply = new Promise((resolve) => {
    onReply = (failure, answer) => resolve(failure ?? answer);
  });
  connection.call('ping', [], onReply);
  return [reply, new WeakRef(onReply)];
}

describe('a command that was answered', () => {
  it('lets go of who asked, although its client keeps it', async () => {
    const client = connect();
    const written = jest.spyOn(client, 'call');
    const ready = jest.fn();
    const connection = new RedisConnection(client, systemEnvironment, { ready, ended: jest.fn() });

    const [reply, asker] = ask(connection);
    expect(await reply).toBe('PONG');
    await eventually(() => {
      collectGarbage();
      return asker.deref() === undefined;
    });

    expect(written.mock.calls).toHaveLength(1);
  });
});
