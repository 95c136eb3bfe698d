// What must not go wrong where names come from strangers and logs go to many.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Body, Controller, Post } from '@nestjs/common';
import { Redis } from 'ioredis';
import { Locked, RedlockModule, RedlockService, type Lock } from 'nestjs-locked';

import { Log, startPlain, startServer } from '../nest/support/applications.js';
import { aborted, rejection } from '../nest/support/events.js';
import { MemoryNode } from '../../lib/nodes/memory-node.js';
import { resolveOptions } from '../../lib/core/options.js';
import { Redlock } from '../../lib/core/redlock.js';
import { createNodes, type NodeInput, type NodeSet } from '../../lib/nodes/node-inputs.js';
import { client, server } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';

// A busy machine must not decide.
const patient = { nodeTimeout: 2_000, ttl: 10_000 };

describe('the log', () => {
  it('names no resource, no owner and no password, also when nodes go and locks are lost', async () => {
    const mortal = await startRedisServer();
    const admin = new Redis(mortal.url);
    await admin.call('ACL', ['SETUSER', 'locks', 'on', '>hunter2', '~*', '&*', '+@all']);
    const log = new Log();
    const url = mortal.url.replace('redis://', 'redis://locks:hunter2@');
    const imports = [RedlockModule.forRoot([url], { ttl: 1_000, nodeTimeout: 250, wait: 0 })];
    const redlock = (await startPlain({ imports }, log)).get(RedlockService);
    const owners: string[] = [];

    const lost = await rejection(
      redlock.using('user:alice@example.com', async ({ ownerId, signal }) => {
        owners.push(ownerId);
        expect(await redlock.tryAcquire('user:bob@example.com')).not.toBeNull();
        expect(await redlock.tryAcquire('user:bob@example.com')).toBeNull();
        await mortal.stop();
        await aborted(signal);
      }),
    );
    const refused = await rejection(redlock.acquire('user:carol@example.com'));
    admin.disconnect();

    expect([lost, refused]).toMatchObject([{ code: 'LOCK_LOST' }, { code: 'NO_QUORUM' }]);
    const lines = JSON.stringify(log.lines);
    expect(lines).toContain('Lost a lock');
    for (const secret of ['alice', 'bob', 'carol', 'hunter2', ...owners]) {
      expect(lines).not.toContain(secret);
    }
  });
});

const hostile: readonly (readonly [kind: string, name: string])[] = [
  ['a newline', 'a\r\nb'],
  ['NUL', 'a\0b'],
  ['a RESP command', 'x\r\n*1\r\n$8\r\nFLUSHALL\r\n'],
  ['Lua', `x" redis.call('FLUSHALL') --`],
  ['a Lua long bracket', ']]redis.call("FLUSHALL")--[['],
  ['a Lua pattern', '%s*(.-)%z'],
  ['a glob', '*'],
  ['a hash tag', '{a}:{b'],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['toString', 'toString'],
  ['a Cyrillic look-alike of admin', '\u0430dmin'],
  ['a decomposed form of another name', 'cafe\u0301'],
  ['a right-to-left override', 'a\u202eb'],
  ['512 characters', '\u{1F512}'.repeat(256)],
];
const others = ['admin', 'caf\u00e9', 'a', 'ab', 'x'];

describe.each(['Redis', 'memory'])('a resource named by a stranger, on a %s node', (kind) => {
  let nodes: NodeSet;
  let redlock: Redlock;

  beforeAll(async () => {
    const inputs: NodeInput[] = kind === 'Redis' ? [server.url] : [new MemoryNode()];
    nodes = createNodes(inputs, resolveOptions(patient, 1));
    await nodes.whenReady(5_000);
    redlock = new Redlock(nodes.nodes, patient);
  });

  afterAll(async () => {
    await redlock.close();
    await nodes.close();
  });

  it.each(hostile)('%s is a name like any other', async (_kind, name) => {
    await client.set('canary', 'alive');
    const lock = await redlock.acquire(name);

    const second = await redlock.tryAcquire(name);
    const free = await Promise.all(others.map((other) => redlock.tryAcquire(other)));
    const stored = await client.get(name);
    await lock.extend();
    await lock.release();
    for (const other of free) await other?.release();

    expect(second).toBeNull();
    expect(free.map((other) => other?.resources)).toEqual(others.map((other) => [other]));
    expect(stored).toBe(kind === 'Redis' ? lock.ownerId : null);
    expect(await client.get('canary')).toBe('alive');
    expect((await redlock.inspect(name)).state).toBe('free');
  });

  it('of megabytes is refused at once, and not repeated in the message', async () => {
    const { message } = (await rejection(redlock.acquire('x'.repeat(2 ** 22)))) as Error;

    expect(message).toContain('at most 512 characters, got 4194304');
    expect(message.length).toBeLessThan(200);
  });
});

describe('a resource taken from a request', () => {
  const ran: unknown[] = [];

  @Controller()
  class Orders {
    @Post()
    @Locked((order: { id: string }) => order.id)
    async pay(@Body() order: { id: string }): Promise<string> {
      ran.push(order.id);
      return 'paid';
    }
  }

  it.each([[{ $ne: '' }], [7], [null], [[{ a: 1 }]], [['']], ['redlock:node'], ['x'.repeat(513)]])(
    'is never an object, a number or a reserved name: %j runs nothing',
    async (id) => {
      const { url } = await startServer({ controllers: [Orders] });

      const answer = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ id }),
      });

      expect(answer.status).toBe(500);
      expect(ran).toEqual([]);
    },
  );
});

describe('TLS', () => {
  const folder = join(import.meta.dirname, 'certificate');
  const certificate = readFileSync(join(folder, 'cert.pem'), 'utf8');
  const files = [
    '--tls-cert-file',
    join(folder, 'cert.pem'),
    '--tls-key-file',
    join(folder, 'key.pem'),
  ];
  let tlsPort: number;

  beforeAll(async () => {
    // The plain port stays: nothing but the certificate may be the reason for a refusal.
    for (let index = 0; index < files.length; index += 2) {
      await client.config('SET', files[index]?.slice(2) ?? '', files[index + 1] ?? '');
    }
    await client.config('SET', 'tls-auth-clients', 'no');
    tlsPort = server.port + 10_000;
    await client.config('SET', 'tls-port', tlsPort);
  });

  async function lockOver(input: NodeInput): Promise<Lock> {
    const nodes = createNodes([input], resolveOptions(patient, 1));
    try {
      await nodes.whenReady(5_000);
      const redlock = new Redlock(nodes.nodes, { ...patient, wait: 0 });
      const lock = await redlock.acquire('r');
      await redlock.close();
      return lock;
    } finally {
      await nodes.close();
    }
  }

  it('refuses a server with a certificate that nobody vouches for', async () => {
    await expect(lockOver(`rediss://127.0.0.1:${tlsPort}`)).rejects.toMatchObject({
      code: 'NO_QUORUM',
      message: expect.stringMatching(/self.signed certificate/),
    });
  });

  it('refuses a server that is another than the one named', async () => {
    const tls = { ca: certificate };

    await expect(lockOver({ host: '127.0.0.1', port: tlsPort, tls })).rejects.toMatchObject({
      code: 'NO_QUORUM',
      message: expect.stringMatching(/does not match|altnames/i),
    });
  });

  it('locks over a server that is the one named', async () => {
    const tls = { ca: certificate, servername: 'locks.test' };

    expect(await lockOver({ host: '127.0.0.1', port: tlsPort, tls })).toMatchObject({
      resources: ['r'],
    });
  });

  it.each(['?rejectUnauthorized=false', '?tls=false', '?ssl_cert_reqs=none', '?family=0&tls=no'])(
    'cannot be weakened by what stands in a URL: %s',
    (query) => {
      expect(() => createNodes([`rediss://127.0.0.1:1${query}`], resolveOptions({}, 1))).toThrow(
        TypeError,
      );
    },
  );
});
