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
    const module = join(folder, 'sample-app/lab/replica-process.js');
    const options = { nodes: [server.url], storeUrl: server.url, number: 1 };
    const script = `
      import { ReplicaProcess } from ${JSON.stringify(module)};
      const options = { ...${JSON.stringify(options)}, onNews: () => undefined };
      await new ReplicaProcess(options).whenReady();
      console.log('ready');
    `;
    writeFileSync(join(folder, 'parent.js'), script);
    const parent = spawn(process.execPath, [join(folder, 'parent.js')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(parent.stdout, 'data');
    expect(await lockConnections(client)).toBe(1);

    parent.kill('SIGKILL');

    // By its connection, as nobody tells the end of a process that is not a child.
    while ((await lockConnections(client)) > 0);
  });
});

async function lockConnections(client: Redis): Promise<number> {
  const list = String(await client.client('LIST'));
  return list.split('\n').filter((line) => line.includes('name=nestjs-locked')).length;
}
