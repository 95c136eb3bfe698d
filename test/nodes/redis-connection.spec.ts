import { describe, expect, it, jest } from '@jest/globals';

import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisConnection, type OnReply } from '../../lib/nodes/redis-connection.js';
import { collectGarbage } from '../support/collect-garbage.js';
import { eventually } from '../support/node-harness.js';
import { connect } from '../support/redis-of-spec.js';

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
