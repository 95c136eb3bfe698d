// How long a FaultyNode's faults take over a slow network.
import { expect, it } from '@jest/globals';
import { MemoryNode } from 'nestjs-locked';
import { FaultyNode, type NodeFault } from 'nestjs-locked/testing';

import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { inspect, requestFor, worldOf } from '../support/node-harness.js';

it.each<[NodeFault, string, number]>([
  ['down', 'at once, as nothing is sent', 0],
  ['misconfigured', 'when the server has refused it', 50],
])('a FaultyNode that is %s says so %s', async (fault, _when, delay) => {
  const environment = new SimulatedEnvironment();
  const node = new FaultyNode({ environment });
  const startedAt = environment.now();
  const answeredAt: number[] = [];

  node.delay({ request: 20, answer: 30 });
  node.fail(fault);
  node.acquire(requestFor(), () => answeredAt.push(environment.now() - startedAt));
  const atOnce = [...answeredAt];
  await environment.advance(100);

  expect(atOnce).toEqual([]);
  expect(answeredAt).toEqual([delay]);
});

it('a request whose answer a FaultyNode loses is as slow as any other', async () => {
  const environment = new SimulatedEnvironment();
  const inside = new MemoryNode({ environment });
  const node = new FaultyNode({ node: inside, environment });
  const ownerNow = async (): Promise<unknown> =>
    Reflect.get(await inspect(inside, worldOf(), 'r'), 'ownerId');
  const request = requestFor({ world: worldOf({ fencing: false }) });

  node.delay({ request: 20 });
  node.fail('answerLost');
  node.acquire(request, () => undefined);
  await environment.advance(19);
  const before = await ownerNow();
  await environment.advance(1);

  expect([before, await ownerNow()]).toEqual([null, request.ownerId]);
});
