// What many waiting calls ask of a server.
import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';

import { Redlock } from '../../lib/core/redlock.js';
import { afterTest } from '../support/after-test.js';
import { testNodes } from '../support/node-harness.js';
import { client, server } from '../support/redis-of-spec.js';
import { callsOn } from '../support/server-info.js';

async function startProcess(): Promise<Redlock> {
  const nodes = testNodes([server.url]);
  afterTest(() => nodes.close());
  await nodes.whenReady(5_000);
  return new Redlock([nodes.node], { quarantine: false });
}

it('polls for 100 resources with some 200 calls a second, where each poll by itself makes two', async () => {
  const [holder, other] = [await startProcess(), await startProcess()];
  const resources = Array.from({ length: 100 }, (_, index) => `sku:${index}`);
  await Promise.all(resources.map((resource) => holder.acquire(resource, 30_000)));
  const controller = new AbortController();
  const options = { wait: 30_000, signal: controller.signal };
  const calls = resources.map((resource) => other.acquire(resource, 1_000, options));
  const outcome = Promise.allSettled(calls);
  await sleep(500);

  await client.config('RESETSTAT');
  await sleep(1_000);
  const { evalsha = 0 } = await callsOn(client);
  controller.abort();
  await outcome;

  // Of a machine that has other things to do, few.
  expect(evalsha).toBeGreaterThan(0);
  expect(evalsha).toBeLessThan(300);
});
