// What the end of a process does to the locks that it holds.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { LockTakenError } from 'nestjs-locked';

import { afterTest } from '../support/after-test.js';
import { compile } from '../support/compile.js';
import { duration } from '../support/duration.js';
import { eventually } from '../support/eventually.js';
import {
  locksOn,
  startApplication,
  startObserved,
  stopObserved,
  type ObservedServer,
} from './lock-domain.js';
import type { HolderOrders } from './lock-holder.js';

let servers: ObservedServer[];
let folder: string;

beforeAll(async () => {
  folder = compile('lib', 'test/faults', 'test/support');
  servers = await startObserved(3);
});

afterAll(async () => {
  rmSync(folder, { recursive: true });
  await stopObserved(servers);
});

describe('a process', () => {
  async function startHolder(orders: Omit<HolderOrders, 'nodes'>): Promise<ChildProcess> {
    const script = join(folder, 'test/faults/lock-holder.js');
    const nodes = servers.map(({ url }) => url);
    const child = fork(script, [JSON.stringify({ ...orders, nodes })]);
    afterTest(() => child.kill('SIGKILL'));
    await once(child, 'message');
    return child;
  }

  it('ends at once when it has closed, also with an extension in flight', async () => {
    const child = await startHolder({ resource: 'in-flight', ttl: 900, duration: 700 });
    const frozen = servers[2];
    frozen?.freeze();
    afterTest(() => frozen?.thaw());

    await once(child, 'message');
    const ending = await duration(() => once(child, 'exit'));

    expect(child.exitCode).toBe(0);
    expect(ending).toBeLessThan(1_000);
  });

  it.each([
    ['is killed', 'SIGKILL'],
    ['gets SIGTERM without enableShutdownHooks()', 'SIGTERM'],
  ] as const)('that %s holds its lock for its ttl, and no longer', async (_how, signal) => {
    const ttl = 3_000;
    const child = await startHolder({ resource: 'killed', ttl, duration: 60_000 });
    const nodes = servers.map(({ url }) => url);
    // On a busy machine a node's answer is late, and would count as none.
    const { app, redlock } = await startApplication(nodes, { ttlMax: ttl, nodeTimeout: 1_000 });
    afterTest(() => app.close());
    child.kill(signal);
    await once(child, 'exit');

    const taken = await redlock
      .acquire('killed', ttl, { wait: 0 })
      .catch((error: unknown) => error);
    const waited = await duration(async () => {
      await (await redlock.acquire('killed', ttl, { wait: 10_000 })).release();
    });

    expect(taken).toBeInstanceOf(LockTakenError);
    expect(waited).toBeLessThan(ttl + 1_500);
  });

  it('leaves no lock on any node', async () => {
    for (const server of servers) {
      await eventually(async () => (await locksOn(server)).length === 0);
    }
  });
});
