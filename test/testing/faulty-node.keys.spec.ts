// What a test makes of the keys on a FaultyNode, past its faults and its network.
import { describe, expect, it, jest } from '@jest/globals';
import { MemoryNode } from 'nestjs-locked';
import { FaultyNode } from 'nestjs-locked/testing';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { acquire, inspect, release, requestFor, worldOf } from '../support/node-harness.js';

const ownerOf = async (node: MemoryNode, key = 'r') =>
  Reflect.get(await inspect(node, worldOf(), key), 'ownerId') as string | null;

describe('the keys on a FaultyNode', () => {
  it('are taken and given back by others past all faults, and no call of that is recorded', async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });

    node.delay({ request: 60_000 });
    node.fail('requestLost');
    node.occupy('r');
    const whileHeld = await ownerOf(inside);
    node.vacate('r');

    expect(whileHeld).toBe('another client');
    expect(await ownerOf(inside)).toBeNull();
    expect(node.calls).toEqual([]);
  });

  it.each([
    [[], 10_000],
    [[1], 1],
    [[60_000], 60_000],
  ])('are taken by others for the ttl %j: %i ms', async (ttl, lifetime) => {
    const environment = new SimulatedEnvironment();
    const inside = new MemoryNode({ environment });
    const node = new FaultyNode({ node: inside, environment });

    node.occupy('r', ...ttl);

    expect(await inspect(inside, worldOf(), 'r')).toMatchObject({ remaining: lifetime });
  });

  it('stay with the client that came first, until that one gives them back or they are lost', async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });
    const owners: (string | null)[] = [];

    for (const end of [() => node.vacate('r', 'first'), () => node.lose()]) {
      node.occupy('r', 10_000, 'first');
      node.occupy('r', 10_000, 'second');
      node.vacate('r', 'second');
      owners.push(await ownerOf(inside));
      end();
      owners.push(await ownerOf(inside));
    }

    expect(owners).toEqual(['first', null, 'first', null]);
  });

  it('are lost with all others of their lock', async () => {
    const inside = new MemoryNode();
    const node = new FaultyNode({ node: inside });
    await acquire(node, requestFor({ resources: ['a', 'b'] }));

    node.lose();

    expect([await ownerOf(inside, 'a'), await ownerOf(inside, 'b')]).toEqual([null, null]);
  });

  it('are no longer known once they are released: a long test fills no memory', async () => {
    const inside = new MemoryNode();
    const releases = jest.spyOn(inside, 'release');
    const node = new FaultyNode({ node: inside });
    const request = requestFor();
    await acquire(node, request);
    await release(node, request);

    node.lose();

    expect(releases).toHaveBeenCalledTimes(1);
  });
});
