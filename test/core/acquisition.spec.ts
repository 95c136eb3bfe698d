import { describe, expect, it, jest } from '@jest/globals';

import { LockExpiredError, LockTakenError, RedlockError } from '../../lib/core/errors.js';
import { expectInstance, reasonOf, setScene } from './scene.js';

const ttl = 10_000;

describe('a free resource', () => {
  it('is locked on all nodes by one attempt', async () => {
    const { redlock, nodes, owners, observer, until } = setScene();

    const lock = await until(redlock.acquire('r', ttl));

    expect(await owners()).toEqual([lock.ownerId, lock.ownerId, lock.ownerId]);
    expect(nodes.map((node) => node.count('acquire'))).toEqual([1, 1, 1]);
    expect(observer.acquired).toHaveBeenCalledWith(lock, 0, 1);
  });

  it.each([1, 2, 3, 4, 5])('is locked with %i nodes', async (nodeCount) => {
    const { redlock, until } = setScene({ nodes: nodeCount });

    const lock = await until(redlock.acquire('r', ttl));

    expect(lock.isValid).toBe(true);
  });

  it.each([
    [3, 1],
    [4, 1],
    [5, 2],
  ])('of %i nodes is locked while %i are down', async (nodeCount, down) => {
    const { redlock, nodes, until } = setScene({ nodes: nodeCount });
    for (const node of nodes.slice(0, down)) node.refuse();

    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }));

    expect(lock.isValid).toBe(true);
  });

  it('is locked for the default ttl where the call names none', async () => {
    const { redlock, until } = setScene();

    const lock = await until(redlock.acquire('r'));

    expect(lock.remaining).toBeCloseTo(9_898, 6);
  });
});

describe('a wait of 0', () => {
  it('makes one attempt', async () => {
    const { redlock, otherProcess, environment, node, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const before = node(0).count('acquire');

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    expect(node(0).count('acquire')).toBe(before + 1);
    expect(environment.pendingTimers).toBe(1);
  });

  it('subscribes to nothing', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).occupy('r', 60_000);
    node(1).occupy('r', 60_000);
    const listen = jest.spyOn(node(0), 'listen');

    await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(listen).not.toHaveBeenCalled();
  });

  it('does not queue behind other calls of its process', async () => {
    const { redlock, otherProcess, environment, node, rejection, until } = setScene();
    await until(otherProcess().acquire('r', ttl));
    const queued = reasonOf(redlock.acquire('r', ttl, { wait: 1_000 }));
    await environment.advance(10);
    const before = node(0).count('acquire');

    const error = expectInstance(
      await rejection(redlock.acquire(['r', 'a'], ttl, { wait: 0 }), 1),
      LockTakenError,
    );

    expect(error.message).toContain(
      'Could not lock "a", "r" within 0 ms: other calls of this process hold or wait for "r". ',
    );
    expect(error.resources).toEqual(['a', 'r']);
    expect(error.taken).toEqual(['r']);
    expect(error.retryAfter).toBeNull();
    expect(node(0).count('acquire')).toBe(before);
    await until(queued);
  });

  it('gives that attempt the whole node timeout', async () => {
    const { redlock, nodes, until } = setScene();
    for (const node of nodes) node.delay({ answer: 499 });

    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }));

    expect(lock.isValid).toBe(true);
  });
});

describe('a taken resource', () => {
  it('is asked for again until `wait` is spent, and not for longer', async () => {
    const { redlock, otherProcess, environment, observer, rejection, until } = setScene();
    await until(otherProcess().acquire('r', 30_000));
    const startedAt = environment.now();

    const error = await rejection(redlock.acquire('r', ttl, { wait: 2_000 }));

    const waited = environment.now() - startedAt;
    expect(waited).toBeGreaterThan(1_990);
    expect(waited).toBeLessThanOrEqual(2_003);
    const [resources, reported, reportedWait, attempts] = observer.refused.mock.calls[0] ?? [];
    expect(resources).toEqual(['r']);
    expect(reported).toBe(error);
    expect(reportedWait).toBeCloseTo(waited, -1);
    expect(attempts).toBeGreaterThan(10);
    expect(expectInstance(error, LockTakenError).message).toMatch(
      /^Could not lock "r" in \d+ attempts and (1999|200\d) ms: held by another owner for another \d+ ms, unless extended\. Nodes: node-0 taken \(for another \d+ ms\)/,
    );
  });

  it('is asked for by somebody else within its wait as soon as it is free', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    const lock = await until(otherProcess().acquire('r', ttl));
    const waiting = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    await until(lock.release());
    const startedAt = environment.now();
    await until(waiting);

    expect(environment.now() - startedAt).toBeLessThanOrEqual(120);
  });

  it('is free again after the ttl of a process that died', async () => {
    const { redlock, otherProcess, environment, until } = setScene();
    await until(otherProcess().acquire('r', 2_000));
    const startedAt = environment.now();

    const lock = await until(redlock.acquire('r', ttl));

    expect(environment.now() - startedAt).toBeLessThanOrEqual(2_000 + 121);
    expect(lock.remaining).toBeCloseTo(9_898, 6);
  });

  it('gives a lock with its whole ttl, however long it was waited for', async () => {
    const { redlock, otherProcess, environment, nodes, until } = setScene();
    // Longer than drift: counted from the answer, the lock would outlive its keys.
    for (const node of nodes) node.delay(200);
    const held = await until(otherProcess().acquire('r', 30_000));
    const waiting = redlock.acquire('r', ttl, { wait: 60_000 });
    await environment.advance(25_000);

    await until(held.release());
    const lock = await until(waiting);
    const kept = await Promise.all(nodes.map((node) => node.keyLifetime('r')));

    expect(lock.remaining).toBeGreaterThan(9_690);
    expect(lock.remaining).toBeLessThan(Math.min(...kept));
  });

  it('says when it may be free again', async () => {
    const { redlock, nodes, rejection } = setScene();
    nodes.forEach((node, index) => node.occupy('r', 1_000 * (index + 1)));

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(expectInstance(error, LockTakenError).retryAfter).toBe(1_000);
  });

  it('whose holder no node knows the end of says so', async () => {
    const { redlock, nodes, rejection } = setScene({ nodes: 4 });
    nodes.forEach((node, index) => node.occupy('r', 1_000 * (index + 1)));
    nodes[0]?.refuse();

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(expectInstance(error, LockTakenError).retryAfter).toBe(4_000);
  });

  it('is not asked for in the last moment, which a timer that was early has left', async () => {
    const { redlock, node, nodes, rejection } = setScene();
    for (const each of nodes) {
      each.occupy('r', 60_000);
      each.delay({ request: 0.3, answer: 0.3 });
    }

    await rejection(redlock.acquire('r', ttl, { wait: 30 }));

    // Once, and once more when it would hear of a release; then it rests until the end.
    expect(node(0).count('acquire')).toBe(2);
  });

  it('is told as taken, not as a lack of nodes, when `wait` cuts the last attempt short', async () => {
    const { redlock, nodes, rejection } = setScene();
    for (const node of nodes) {
      node.occupy('r', 60_000);
      node.delay({ request: 5, answer: 5 });
    }
    const retryDelay = { min: 30, max: 30 };

    const errors: unknown[] = [];
    for (let wait = 40; wait < 80; wait += 3) {
      errors.push(await rejection(redlock.acquire('r', ttl, { wait, retryDelay })));
    }

    const codes = errors.map((error) => expectInstance(error, RedlockError).code);
    expect(new Set(codes)).toEqual(new Set(['LOCK_TAKEN']));
  });
});

describe("the keys of a client's own earlier attempt", () => {
  it.each([
    ['after', [0, 1, 2]],
    ['before', [2, 3, 4]],
  ])(
    'do not vote its next one down: 4 of 5 nodes free at the second attempt are enough (votes won %s those lost)',
    async (_, taken) => {
      const { environment, redlock, nodes, node, observer, until } = setScene({ nodes: 5 });
      for (const each of nodes) each.delay({ request: 3, answer: 3 });
      for (const index of taken) node(index).occupy('r', 60_000);
      const call = redlock.acquire('r', ttl, { retryDelay: { min: 1, max: 1 } });
      await environment.advance(4);
      for (const index of taken.slice(1)) node(index).vacate('r');

      const lock = await until(call);

      expect(observer.acquired).toHaveBeenCalledWith(lock, expect.any(Number), 2);
    },
  );
});

describe('a lock whose answers came after its ttl', () => {
  it('is refused as expired, and undone', async () => {
    const { environment, redlock, nodes, owners, until } = setScene();
    for (const node of nodes) node.delay({ answer: 1 });
    const call = reasonOf(redlock.acquire('r', 1_000, { wait: 0 }));
    await environment.settle();
    environment.block(1_500);

    const error = expectInstance(await until(call), LockExpiredError);

    expect(error.message).toMatch(
      /a quorum granted it too late to be of use\. .* Use a longer ttl/,
    );
    expect(error.votes.map(({ vote }) => vote)).toEqual(['granted', 'granted', 'none']);
    expect(await owners()).toEqual([null, null, null]);
  });
});
