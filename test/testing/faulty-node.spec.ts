import { describe, expect, it } from '@jest/globals';
import { MemoryNode, RedlockModule, type AcquireAnswer } from 'nestjs-locked';
import { FaultyNode, type NodeFault } from 'nestjs-locked/testing';

import { lockOver } from './faulty-node-scene.js';
import { aborted, rejection, thrown, turn } from '../nest/support/events.js';
import { describeLockNode } from '../nodes/lock-node.contract.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import {
  acquire,
  extend,
  inspect,
  listen,
  release,
  requestFor,
  worldOf,
} from '../support/node-harness.js';

function wordsOf(answer: AcquireAnswer): string {
  if (answer.vote !== 'failed') return answer.vote;
  const { mayHold, isMisconfiguration } = answer;
  return `failed${mayHold ? ', may hold' : ''}${isMisconfiguration ? ', misconfigured' : ''}`;
}

describeLockNode(
  'faulty, without a fault',
  async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });
    return {
      node,
      other: new FaultyNode({ node: inside }),
      now: () => Date.now(),
      expire: async (keys) => {
        for (const key of keys) node.expireNow(key);
      },
    };
  },
  async () => undefined,
);

describe('FaultyNode', () => {
  it('lets others hold a key, and give it back', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);

    node.occupy('a');
    const whileHeld = await redlock.tryAcquire('a');
    node.vacate('a');
    const afterwards = await redlock.tryAcquire('a');

    expect(whileHeld).toBeNull();
    expect(afterwards?.isValid).toBe(true);
    await afterwards?.release();
  });

  it.each<[string, (node: FaultyNode) => void, number[]]>([
    ['vacate tells', (node) => node.vacate('r'), [1]],
    ['lose does not tell', (node) => node.lose(), []],
    ['expireNow does not tell', (node) => node.expireNow('r'), []],
  ])('frees a key, of which %s those who listen', async (_verb, end, expected) => {
    const node = new FaultyNode();
    node.occupy('r');
    const ear = await listen(node, worldOf(), 'r');

    end(node);
    await turn();

    expect(await inspect(node, worldOf(), 'r')).toMatchObject({ ownerId: null });
    expect(ear.heard).toEqual(expected);
    ear.stop();
  });

  it('refuses what it is told to, at once, until it is healed', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);

    node.refuse();
    const error = await rejection(redlock.acquire('a', 10_000, { wait: 0 }));
    const status = node.status();
    node.heal();
    const lock = await redlock.acquire('a');
    node.refuse('extend');
    const failedExtension = await rejection(lock.extend());

    expect(error).toMatchObject({ code: 'NO_QUORUM' });
    expect(status.state).toBe('down');
    expect(failedExtension).toMatchObject({ code: 'NO_QUORUM' });
    expect(lock.isValid).toBe(true);
    await lock.release();
  });

  it.each(['lose', 'expireNow'] as const)(
    'makes a holder lose its lock by %s at the next extension, and others get it',
    async (verb) => {
      const node = new FaultyNode();
      const redlock = await lockOver(node);
      const other = await lockOver(node);
      const others: boolean[] = [];

      const error = await rejection(
        // The watchdog looks after a third of the ttl; the rest of it is for a busy machine.
        redlock.using(['a', 'b'], { ttl: 600 }, async ({ signal }) => {
          node[verb]('a');
          const lock = await other.tryAcquire('a');
          others.push(lock?.isValid === true);
          await aborted(signal);
          await lock?.release();
        }),
      );

      expect(others).toEqual([true]);
      expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
    },
  );

  it.each([
    ['lose', (node: FaultyNode) => node.lose(), 'free'],
    ['expireNow', (node: FaultyNode) => node.expireNow('a'), 'held'],
  ])('frees by %s what another client holds', async (_verb, end, others) => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);

    node.occupy('a');
    node.occupy('b');
    end(node);

    expect((await redlock.inspect('a')).state).toBe('free');
    expect((await redlock.inspect('b')).state).toBe(others);
  });

  it('ends one resource by expireNow and leaves the others', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);
    const lock = await redlock.acquire(['a', 'b']);

    node.expireNow('a');

    expect((await redlock.inspect('a')).state).toBe('free');
    expect((await redlock.inspect('b')).state).toBe('held');
    await lock.release();
  });

  it.each<[NodeFault, string, string]>([
    ['down', 'failed', 'free'],
    ['misconfigured', 'failed, misconfigured', 'free'],
    ['requestLost', 'no answer', 'free'],
    ['answerLost', 'no answer', 'held'],
    ['answerOdd', 'failed, may hold', 'held'],
    ['quarantined', 'quarantined', 'held'],
    ['answerDoubled', 'granted granted', 'held'],
  ])('with %s answers %s and leaves the key %s', async (fault, expected, left) => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside, name: 'faulty' });
    const answers: string[] = [];

    node.fail(fault, 'acquire');
    node.acquire(requestFor(), (answer) => answers.push(wordsOf(answer)));
    await inspect(node, worldOf(), 'r');
    const found = await inspect(inside, worldOf(), 'r');

    expect(answers.join(' ') || 'no answer').toBe(expected);
    expect(found).toMatchObject(
      left === 'held' ? { ownerId: expect.any(String) } : { ownerId: null },
    );
  });

  it('is refused where it is misconfigured, by the name that it was given', () => {
    const node = new FaultyNode({ name: 'faulty' });

    node.fail('misconfigured');

    expect(node.status()).toMatchObject({
      name: 'faulty',
      state: 'refused',
      findings: [expect.stringMatching(/^WRONGPASS /)],
    });
  });

  it('is up where only other operations than acquisitions fail, and named as the node inside', () => {
    const node = new FaultyNode({ node: new MemoryNode({ name: 'inside' }) });

    node.refuse('extend', 'release', 'inspect');

    expect(node.status()).toMatchObject({ name: 'inside', state: 'up', findings: [] });
    expect(node.name).toBe('inside');
  });

  it('is in quarantine where its votes do not count, so that nobody takes it for ready', () => {
    const node = new FaultyNode();

    node.fail('quarantined');
    const during = node.status();
    node.heal();

    expect(during).toMatchObject({ state: 'up', quarantineRemaining: 1_000 });
    expect(node.status().quarantineRemaining).toBe(0);
  });

  it('withholds in quarantine what is granted and extended, but says what others hold', async () => {
    const node = new FaultyNode();
    const held = requestFor();
    await acquire(node, held);

    node.fail('quarantined');
    const answers = [
      await acquire(node, requestFor({ resources: ['q'] })),
      await extend(node, held),
      await acquire(node, requestFor()),
      await extend(node, requestFor()),
    ];

    const withheld = { vote: 'quarantined', remaining: 1_000 };
    const others = [{ vote: 'taken' }, { vote: 'revoked' }];
    expect(answers).toMatchObject([withheld, withheld, ...others]);
  });

  it('records what it was asked, and when', async () => {
    const environment = new SimulatedEnvironment({ now: 0 });
    const node = new FaultyNode({ environment });
    const request = requestFor();

    await acquire(node, request);
    await extend(node, request);
    await environment.advance(30);
    await release(node, request);
    await inspect(node, request.world, 'r');

    const told = node.calls.map(({ operation, at, request: its }) => [operation, at, its?.ownerId]);
    const { ownerId } = request;
    expect(told).toEqual([
      ['acquire', 0, ownerId],
      ['extend', 0, ownerId],
      ['release', 30, ownerId],
      ['inspect', 30, undefined],
    ]);
    expect(node.count('extend')).toBe(1);
  });
});

describe('the environment that a module is given', () => {
  it('moves the time of its locks', async () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const redlock = await lockOver(node, { environment });
    const lock = await redlock.acquire('a', 10_000);

    await environment.advance(9_000);
    const before = lock.isValid;
    await environment.advance(1_000);

    expect([before, lock.isValid]).toEqual([true, false]);
  });

  it.each([[null], [{ now: () => 0 }], ['now']])(
    'is refused at once where it is none: %j',
    (given) => {
      const register = () => RedlockModule.forRoot(undefined, { environment: given as never });

      expect(String(thrown(register))).toContain('Expected environment to be an Environment, got ');
    },
  );
});
