import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';

import { compile } from '../../test/support/compile.js';
import { RedisServer } from '../infrastructure/redis-server.js';

describe('ReplicaProcess', () => {
  let folder: string;
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    folder = compile('lib', 'sample-app');
    server = await RedisServer.start();
    client = new Redis(server.url);
  });

  afterAll(async () => {
    client.disconnect();
    await server.kill();
    rmSync(folder, { recursive: true });
  });

  it('ends when the process that started it is killed', async () => {
    const parent = startParent(`
      await new ReplicaProcess({ ...options, onNews: () => undefined }).whenReady();
      console.log('ready');
    `);
    await once(parent.stdout, 'data');
    expect(await lockConnections(client)).toBe(1);

    parent.kill('SIGKILL');

    // Seen by its connection: only a child's end is reported to its parent.
    while ((await lockConnections(client)) > 0);
  });

  it('ends when it is told to while it still starts', async () => {
    const parent = startParent(`
      const replica = new ReplicaProcess({ ...options, onNews: () => undefined });
      const readiness = replica.whenReady().catch((error) => error.message);
      await replica.end();
      console.log(await readiness);
    `);

    const [told] = (await once(parent.stdout, 'data')) as [Buffer];

    expect(String(told)).toBe('replica 1 has ended\n');
  });

  it('that is killed serves nobody any more, and its visitors have left', async () => {
    await client.hset('sample-app-store:values', 'sale', 10);
    const parent = startParent(`
      const visits = new Map();
      const onNews = (news) => news.visits.forEach((visit) => visits.set(visit.id, visit));
      const replica = new ReplicaProcess({ ...options, onNews });
      await replica.whenReady();
      const sell = (counter) => replica.sell({ counter, section: 60_000, isLocked: false, isFatal: false });
      const begun = sell(0);
      while (![...visits.values()].some(({ enteredAt }) => enteredAt !== null)) await sleep(10);
      process.kill(replica.pid, 'SIGKILL');
      // By now it is dead, but we have not heard of that yet.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
      const outcomes = await Promise.all([begun, sell(1), sell(2), sell(3)]);
      await sleep(100);
      const inside = [...visits.values()].filter(({ leftAt }) => leftAt === null).length;
      console.log(JSON.stringify({ outcomes, inside, visits: visits.size }));
    `);
    const [told] = (await once(parent.stdout, 'data')) as [Buffer];

    expect(JSON.parse(String(told))).toEqual({
      outcomes: ['failed', 'failed', 'failed', 'failed'],
      inside: 0,
      visits: 1,
    });
  });

  function startParent(script: string) {
    const module = join(folder, 'sample-app/lab/replica-process.js');
    const options = { nodes: [server.url], storeUrl: server.url, number: 1 };
    const head = `
      import { setTimeout as sleep } from 'node:timers/promises';
      import { ReplicaProcess } from ${JSON.stringify(module)};
      const options = ${JSON.stringify(options)};
    `;
    writeFileSync(join(folder, 'parent.js'), head + script);
    return spawn(process.execPath, [join(folder, 'parent.js')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  }
});

async function lockConnections(client: Redis): Promise<number> {
  const list = String(await client.client('LIST'));
  return list.split('\n').filter((line) => line.includes('name=nestjs-locked')).length;
}
