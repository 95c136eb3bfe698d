import { describe, expect, it, jest } from '@jest/globals';
import {
  MemoryNode,
  RedlockModule,
  RedlockService,
  type AcquireAnswer,
  type LockNode,
} from 'nestjs-locked';
import { fakeTimersEnvironment, FaultyNode, type NodeFault } from 'nestjs-locked/testing';

import { afterTest } from '../support/after-test.js';
import { quick, startPlain } from '../nest/support/applications.js';
import { aborted, rejection, thrown, turn } from '../nest/support/events.js';
import { describeLockNode } from '../nodes/lock-node.contract.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import {
  acquire,
  extend,
  inspect,
  release,
  requestFor,
  tokenAt,
  worldOf,
} from '../support/node-harness.js';

async function lockOver(node: LockNode, options = {}): Promise<RedlockService> {
  const imports = [RedlockModule.forRoot([node], { ...quick, ...options })];
  return (await startPlain({ imports })).get(RedlockService);
}

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
  it('refuses a node that is given in place of the options', () => {
    const error = thrown(() => new FaultyNode(new MemoryNode()));

    expect(String(error)).toBe('TypeError: Expected { node }, got the node itself');
  });

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

  it('hangs without an answer, and serves in order what has piled up when it is healed', async () => {
    const node = new FaultyNode();
    const request = requestFor();
    const answers: string[] = [];

    node.hang();
    node.acquire(request, ({ vote }) => answers.push(vote));
    node.release({ ...request, wakes: false }, ({ vote }) => answers.push(vote));
    const whileHanging = [...answers, node.status().state];
    node.heal();
    await inspect(node, worldOf(), 'r');

    expect(whileHanging).toEqual(['suspended']);
    expect(answers).toEqual(['granted', 'done']);
  });

  it('frees what was released while it was down as soon as it is healed', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node);
    const lock = await redlock.acquire('a');

    node.refuse();
    await lock.release();
    node.heal();
    const next = await redlock.tryAcquire('a');

    expect(next?.isValid).toBe(true);
    await next?.release();
  });

  it('delivers no release that was lost, when it is healed', async () => {
    const node = new FaultyNode();
    const request = requestFor();
    await acquire(node, request);

    node.fail('requestLost', 'release');
    node.release({ ...request, wakes: false }, () => undefined);
    node.heal();

    expect(await inspect(node, worldOf(), 'r')).toMatchObject({ ownerId: request.ownerId });
  });

  it('is slow by a short delay, and as one that hangs by one beyond the node timeout', async () => {
    const node = new FaultyNode();
    const redlock = await lockOver(node, { nodeTimeout: 250 });

    node.delay(20);
    const slow = await redlock.acquire('a', 1_000, { wait: 0 });
    await slow.release();
    node.delay(500);
    const error = await rejection(redlock.acquire('a', 1_000, { wait: 0 }));

    expect(error).toMatchObject({ code: 'NO_QUORUM', votes: [{ vote: 'none' }] });
  });

  it('delays requests and answers by the environment, until it is healed', async () => {
    const environment = new SimulatedEnvironment();
    const inside = new MemoryNode({ environment });
    const node = new FaultyNode({ node: inside, environment });
    const [arrivedAt, answeredAt]: [number[], number[]] = [[], []];
    const startedAt = environment.now();
    const inspectInside = inside.inspect.bind(inside);
    inside.inspect = (...question) => {
      arrivedAt.push(environment.now() - startedAt);
      inspectInside(...question);
    };

    const ask = () =>
      node.inspect(worldOf(), 'r', () => answeredAt.push(environment.now() - startedAt));

    node.delay({ request: 20, answer: 30 });
    ask();
    await environment.advance(10);
    node.delay({ request: 5, answer: 30 });
    ask();
    await environment.advance(20);
    node.delay({ answer: 5 });
    ask();
    await environment.advance(30);
    node.delay(40);
    ask();
    await environment.advance(50);
    node.heal();
    ask();
    await environment.settle();

    // On the same connection the second is behind the first, and the third answer behind theirs.
    expect(arrivedAt).toEqual([20, 20, 30, 60, 110]);
    expect(answeredAt).toEqual([50, 50, 50, 100, 110]);
  });

  it.each([{ answer: 60_000 }, { request: 60_000 }])(
    'is as quick as ever when it is healed, whatever was on the way: %j',
    async (latency) => {
      const node = new FaultyNode();
      const redlock = await lockOver(node);

      node.delay(latency);
      const error = await rejection(redlock.acquire('a', 1_000, { wait: 0 }));
      node.heal();
      const lock = await redlock.acquire('a', 1_000, { wait: 0 });

      expect(error).toMatchObject({ code: 'NO_QUORUM' });
      expect(lock.isValid).toBe(true);
      await lock.release();
    },
  );

  it('serves in order what hangs, what is on the way and what comes when it is healed', async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });
    const served: string[] = [];
    const inspectInside = inside.inspect.bind(inside);
    inside.inspect = (world, resource, onAnswer) => {
      served.push(resource);
      inspectInside(world, resource, onAnswer);
    };
    const answered: string[] = [];
    const ask = (name: string) => node.inspect(worldOf(), name, () => answered.push(name));

    node.delay(60_000);
    ask('answered late');
    await turn();
    node.hang();
    ask('hanging');
    node.delay({ request: 60_000 });
    ask('on the way');
    node.heal();
    ask('afterwards');
    const atOnce = [...answered];
    await turn();

    const inOrder = ['answered late', 'hanging', 'on the way', 'afterwards'];
    expect(atOnce).toEqual([]);
    expect(served).toEqual(inOrder);
    expect(answered).toEqual(inOrder);
  });

  it('lets nothing overtake, though timers cut off fractions of a millisecond', async () => {
    const environment = new SimulatedEnvironment();
    const node = new FaultyNode({ environment });
    const request = requestFor({ token: tokenAt(environment.wallClock(), 1) });
    const answers: string[] = [];

    node.delay({ request: 20 });
    node.acquire(request, ({ vote }) => answers.push(vote));
    await environment.advance(5.5);
    node.delay(0);
    node.release({ ...request, wakes: false }, ({ vote }) => answers.push(vote));
    await environment.advance(20);

    expect(answers).toEqual(['granted', 'done']);
  });

  it('serves one test after another, though fake timers begin at 0 each time', async () => {
    const node = new FaultyNode({ environment: fakeTimersEnvironment() });
    afterTest(async () => void jest.useRealTimers());
    const answers: string[] = [];

    for (const test of [1, 2]) {
      jest.useFakeTimers();
      await jest.advanceTimersByTimeAsync(60_000 / test);
      for (const latency of [0, 10]) {
        node.delay(latency);
        node.inspect(worldOf(), 'r', () => answers.push(`${test}: ${latency} ms`));
        await jest.advanceTimersByTimeAsync(latency);
      }
      jest.useRealTimers();
    }

    expect(answers).toEqual(['1: 0 ms', '1: 10 ms', '2: 0 ms', '2: 10 ms']);
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

    expect(node.status()).toMatchObject({ name: 'faulty', state: 'refused' });
    expect(node.status().findings).toHaveLength(1);
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

    const votes = ['quarantined', 'quarantined', 'taken', 'revoked'];
    expect(answers.map(({ vote }) => vote)).toEqual(votes);
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
