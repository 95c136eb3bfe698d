// What V8 keeps of locks that have ended, where many are on their way at once. It is asked to
// collect young objects only, as it does many times a second: what is left then waits for a full
// collection, and costs time to be copied and marked.
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { describe, expect, it, jest } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisConnection, type OnReply } from '../../lib/nodes/redis-connection.js';
import { afterTest } from '../support/after-test.js';
import { compile } from '../support/compile.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { eventually } from '../support/node-harness.js';
import { connect } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';

const run = promisify(execFile);

/** Bytes per lock; an acquisition and its release make some 10,000. */
const KEPT_MAX = 140;

/** Room for young objects as under load, from the start: else it grows while this measures. */
const memory = ['--expose-gc', '--min-semi-space-size=16', '--max-semi-space-size=32'];

describe('locks that have ended', () => {
  it('are collected while they are young', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => startRedisServer()));
    for (const server of servers) afterTest(() => server.stop());
    const folder = compile('lib', 'test/garbage');
    afterTest(() => rmSync(folder, { recursive: true }));
    const program = join(folder, 'test/garbage/kept-bytes.js');
    const urls = servers.map(({ url }) => url);

    const { stdout } = await run(process.execPath, [...memory, program, ...urls]);

    const kept = stdout.trim().split('\n').map(Number);
    expect(kept).toHaveLength(3);
    // A full collection that V8 has begun in a round only makes it less.
    expect(Math.max(...kept)).toBeLessThan(KEPT_MAX);
  }, 60_000);
});

/** Asks for a reply; gives the reply, and who asked. */
function ask(connection: RedisConnection): [Promise<unknown>, WeakRef<OnReply>] {
  let onReply: OnReply = () => undefined;
  const reply = new Promise((resolve) => {
    onReply = (failure, answer) => resolve(failure ?? answer);
  });
  connection.call('ping', [], onReply);
  return [reply, new WeakRef(onReply)];
}

describe('a command that was answered', () => {
  it('lets go of who asked, although its client keeps it', async () => {
    const client = connect();
    const written = jest.spyOn(client, 'call');
    const ready = jest.fn();
    const connection = new RedisConnection(client, systemEnvironment, { ready, ended: jest.fn() });

    const [reply, asker] = ask(connection);
    expect(await reply).toBe('PONG');
    await eventually(() => {
      collectGarbage();
      return asker.deref() === undefined;
    });

    expect(written.mock.calls).toHaveLength(1);
  });
});
