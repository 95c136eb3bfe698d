import { describe, expect, it } from '@jest/globals';

import { setScene } from './scene.js';
import type { TestNode } from '../support/test-node.js';

const ttl = 10_000;

describe('inspect', () => {
  it('asks for one resource, not for several', async () => {
    const { redlock } = setScene();
    const several: unknown = ['a', 'b'];

    await expect(redlock.inspect(several as string)).rejects.toThrow(
      new TypeError('Expected resource to be a non-empty string, got an array'),
    );
  });

  it('tells that a resource is free, as soon as all nodes have said so', async () => {
    const { redlock, environment, until } = setScene();
    const startedAt = environment.now();

    const state = await until(redlock.inspect('r'));

    expect(environment.now()).toBe(startedAt);
    expect(state).toEqual({
      resource: 'r',
      state: 'free',
      ownerId: null,
      remaining: 0,
      nodes: ['node-0', 'node-1', 'node-2'].map((node) => ({
        node,
        state: 'free',
        ownerId: null,
        remaining: 0,
        message: '',
      })),
    });
    expect(environment.pendingTimers).toBe(0);
  });

  it.each<[string, (node: TestNode) => void]>([
    ['does not answer', (node) => node.refuse()],
    ['has the key of somebody who is gone', (node) => node.occupy('r', ttl)],
  ])('tells that a resource is free where one node of three %s', async (_, change) => {
    const { redlock, node, until } = setScene();
    change(node(0));

    expect(await until(redlock.inspect('r'))).toMatchObject({ state: 'free', ownerId: null });
  });

  it('tells who holds it and for how long a quorum of nodes will keep it', async () => {
    const { redlock, nodes, until } = setScene();
    const ttls = [2_000, 1_000, 3_000];
    nodes.forEach((node, index) => node.occupy('r', ttls[index] ?? 0));

    const state = await until(redlock.inspect('r'));

    expect(state).toMatchObject({ state: 'held', ownerId: 'another client', remaining: 2_000 });
    expect(state.nodes.map(({ remaining }) => remaining)).toEqual(ttls);
  });

  it('sees the locks of other processes', async () => {
    const { redlock, otherProcess, until } = setScene();
    const lock = await until(otherProcess().acquire('r', ttl));

    const state = await until(redlock.inspect('r'));

    expect(state.ownerId).toBe(lock.ownerId);
  });

  it('finds the owner of the quorum, also behind another one', async () => {
    const { redlock, node, until } = setScene();
    node(0).occupy('r', ttl, 'the minority');
    node(1).occupy('r', ttl);
    node(2).occupy('r', ttl);

    const state = await until(redlock.inspect('r'));

    expect(state).toMatchObject({ state: 'held', ownerId: 'another client' });
  });

  it('cannot tell while contenders split the vote', async () => {
    const { redlock, node, until } = setScene();
    node(0).occupy('r', ttl, 'one');
    node(1).occupy('r', ttl, 'two');

    const state = await until(redlock.inspect('r'));

    expect(state).toMatchObject({ state: 'unknown', ownerId: null, remaining: 0 });
    expect(state.nodes.map((each) => each.state)).toEqual(['held', 'held', 'free']);
  });

  it('answers after one node timeout when nodes hang, and says which', async () => {
    const { redlock, environment, node, until } = setScene();
    node(0).hang();
    node(1).refuse();
    const startedAt = environment.now();

    const state = await until(redlock.inspect('r'));

    expect(environment.now() - startedAt).toBeLessThanOrEqual(501);
    expect(state.state).toBe('unknown');
    expect(state.nodes.map(({ remaining }) => remaining)).toEqual([0, 0, 0]);
    expect(state.nodes.map(({ message }) => message)).toEqual([
      'no answer in time',
      'the connection is not ready',
      '',
    ]);
  });

  it('says of a node whose clock is so far off that no token suits it and most others', async () => {
    const clockOffsets = [2_100, 1_900, 0, -1_900, -2_100];
    const { redlock, until } = setScene({ nodes: 5, clockOffsets });

    const state = await until(redlock.inspect('r'));

    expect(state.nodes.map(({ message }) => message)).toEqual([
      'its clock is 2100 ms ahead of most others: no fencing token suits all of them',
      '',
      '',
      '',
      'its clock is 2100 ms behind most others: no fencing token suits all of them',
    ]);
  });

  it('goes by the clock of a node that is away, too, as the tokens do', async () => {
    const { redlock, node, until } = setScene({ clockOffsets: [0, 1_500, 3_000] });
    const early = await until(redlock.acquire('early', ttl));
    await until(early.release());
    node(1).refuse();

    const state = await until(redlock.inspect('r'));
    const lock = await until(redlock.acquire('r', ttl, { wait: 0 }));

    expect(state.nodes.map(({ message }) => message)).toEqual([
      '',
      'the connection is not ready',
      '',
    ]);
    expect(lock.isValid).toBe(true);
  });

  it('takes no clock for wrong while most nodes are away, whose clocks were heard long ago', async () => {
    const { redlock, node, until } = setScene({ clockOffsets: [0, 5_000, 5_000] });
    for (const index of [1, 2]) node(index).refuse();

    const state = await until(redlock.inspect('r'));

    expect(state.nodes[0]).toMatchObject({ state: 'free', message: '' });
  });

  it('takes no clock for wrong without fencing', async () => {
    const { redlock, until } = setScene({
      clockOffsets: [0, 10_000, -10_000],
      options: { fencing: false },
    });

    const state = await until(redlock.inspect('r'));

    expect(state.nodes.map(({ message }) => message)).toEqual(['', '', '']);
  });

  it('is not changed by answers that come later', async () => {
    const { redlock, environment, node, until } = setScene();
    node(0).hang();
    const state = await until(redlock.inspect('r'));

    node(0).heal();
    await environment.advance(10);

    expect(state.nodes[0]?.state).toBe('unknown');
  });
});
