import { describe, expect, it } from '@jest/globals';

import { LockTakenError, NoQuorumError } from '../../lib/core/errors.js';
import { expectInstance, reasonOf, setScene } from './scene.js';
import type { TestNode } from '../support/test-node.js';

const ttl = 10_000;

describe('nodes that go down while a call waits', () => {
  it('are what its error tells of, not who held the resource before', async () => {
    const { environment, redlock, nodes, rejection } = setScene();
    for (const node of nodes) node.occupy('r', 60_000);
    const refused = rejection(redlock.acquire('r', ttl, { wait: 2_000 }));
    await environment.advance(500);

    for (const node of nodes) node.refuse();

    expect(await refused).toBeInstanceOf(NoQuorumError);
  });
});

describe('too few nodes', () => {
  it('are told as such also where the node that votes has the attempt of another', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).occupy('r', 60_000);
    node(1).refuse();
    node(2).fail('quarantined');
    node(2).delay({ answer: 5 });

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(NoQuorumError);
  });

  it('are told with what each of them said', async () => {
    const { redlock, node, rejection } = setScene();
    node(0).refuse();
    node(1).fail('answerOdd', 'acquire');

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toMatch(
      /^Could not lock "r" in 1 attempt and 0 ms: fewer than 2 of 3 nodes could vote\. Nodes: node-0 failed/,
    );
    expect(error.votes).toEqual([
      { node: 'node-0', vote: 'failed', message: 'the connection is not ready' },
      {
        node: 'node-1',
        vote: 'failed',
        message: 'the connection was lost after the request was sent',
      },
      { node: 'node-2', vote: expect.stringMatching(/none|granted/), message: '' },
    ]);
  });

  it('are told to all calls of a process, also to those whose turn never came', async () => {
    const { redlock, nodes, until } = setScene();
    for (const node of nodes) node.refuse();
    const calls = Array.from({ length: 20 }, () =>
      reasonOf(redlock.acquire('r', ttl, { wait: 300 })),
    );

    const errors = await until(Promise.all(calls));

    for (const error of errors) expect(error).toBeInstanceOf(NoQuorumError);
    expect(expectInstance(errors[10], NoQuorumError).message).toMatch(
      /^Could not lock "r" within 30[0-2] ms, behind other calls of this process: fewer than 2 of 3 /,
    );
    expect(errors[10]).toHaveProperty('votes', expectInstance(errors[0], NoQuorumError).votes);
  });

  it.each<[string, (node: TestNode) => void]>([
    ['down', (node) => node.refuse()],
    ['misconfigured', (node) => node.fail('misconfigured')],
  ])(
    'that are %s are not called a taken lock by a call that finds others before it',
    async (_, breakNode) => {
      const { environment, redlock, nodes, rejection, until } = setScene();
      for (const node of nodes) {
        breakNode(node);
        node.delay({ answer: 10 });
      }
      const before = [1, 2].map(() => reasonOf(redlock.acquire('r', ttl, { wait: 300 })));
      // By then one has been answered, and the other is before this one.
      await environment.advance(15);

      const error = await rejection(redlock.tryAcquire(['a', 'r'], ttl));

      expect(error).toBeInstanceOf(NoQuorumError);
      await until(Promise.all(before));
    },
  );

  it('are forgotten as soon as enough of them vote again', async () => {
    const { environment, redlock, nodes, rejection, until } = setScene();
    for (const node of nodes) node.refuse();
    const before = redlock.acquire('r', ttl);
    const behind = redlock.acquire('r', ttl);
    await environment.advance(1_000);
    for (const node of nodes) node.heal();
    const lock = await until(before);

    const error = await rejection(redlock.acquire('r', ttl, { wait: 0 }));

    expect(error).toBeInstanceOf(LockTakenError);
    await until(lock.release());
    await until((await until(behind)).release());
  });

  it('are waited for: one that comes back in time gives the lock', async () => {
    const { environment, redlock, node, until } = setScene();
    node(0).refuse();
    node(1).refuse();
    const call = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    node(1).heal();

    expect((await until(call)).isValid).toBe(true);
  });

  it('are listened to by nobody: what is not held is not released', async () => {
    const { environment, redlock, nodes, until } = setScene();
    for (const node of nodes) node.fail('quarantined', 'acquire');
    const call = redlock.acquire('r', ttl);
    await environment.advance(1_000);

    const listeners = nodes.map((node) => node.listenersOf('r'));
    for (const node of nodes) node.heal();
    await until(call);

    expect(listeners).toEqual([0, 0, 0]);
  });

  it('that hang are asked again after each node timeout', async () => {
    const { environment, redlock, nodes, node, rejection } = setScene();
    for (const each of nodes) each.hang();
    const startedAt = environment.now();

    await rejection(redlock.acquire('r', ttl, { wait: 3_000 }));

    expect(node(0).count('acquire')).toBeGreaterThanOrEqual(5);
    expect(environment.now() - startedAt).toBeLessThanOrEqual(3_003);
  });

  it('because of quarantine are told as that', async () => {
    const { redlock, nodes, owners, rejection } = setScene();
    for (const node of nodes) node.fail('quarantined', 'acquire');

    const error = expectInstance(
      await rejection(redlock.acquire('r', ttl, { wait: 0 })),
      NoQuorumError,
    );

    expect(error.message).toMatch(
      /quarantined \(may have forgotten locks that are held; its votes count in 1000 ms\)/,
    );
    expect(await owners()).toEqual([null, null, null]);
  });

  it('because of a wrong password reject at once, not after `wait`', async () => {
    const { environment, redlock, node, rejection } = setScene();
    node(0).fail('misconfigured');
    node(1).fail('misconfigured');
    const startedAt = environment.now();

    const error = expectInstance(await rejection(redlock.acquire('r', ttl)), NoQuorumError);

    expect(environment.now()).toBe(startedAt);
    expect(error.message).toMatch(
      /: too many nodes are misconfigured for a quorum of 2 of 3\. Nodes: node-0 failed \(WRONGPASS/,
    );
  });
});

describe('one hung node of three', () => {
  it('neither slows an acquisition nor stretches its wait', async () => {
    const { environment, redlock, otherProcess, node, rejection, until } = setScene();
    node(0).hang();
    const startedAt = environment.now();

    const lock = await until(otherProcess().acquire('r', 30_000));
    const lockedAt = environment.now();
    await rejection(redlock.acquire('r', ttl, { wait: 1_000 }));

    expect(lockedAt).toBe(startedAt);
    expect(environment.now() - lockedAt).toBeLessThanOrEqual(1_003);
    expect(lock.isValid).toBe(true);
  });

  it('keeps no key of a failed call once it runs again', async () => {
    const { environment, redlock, node, rejection } = setScene();
    node(0).hang();
    node(1).occupy('r', 60_000);
    node(2).occupy('r', 60_000);
    await rejection(redlock.acquire('r', ttl, { wait: 1_000 }));

    node(0).heal();
    await environment.settle();

    expect(await node(0).ownerOf('r')).toBeNull();
  });
});
