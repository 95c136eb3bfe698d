import { createHook } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import { inspect } from 'node:util';

import { describe, expect, it, jest } from '@jest/globals';
import type * as Ioredis from 'ioredis';

import { systemEnvironment } from '../../lib/core/environment.js';
import { encodeCommand } from '../../lib/nodes/redis-command.js';
import { RedisConnection, type OnReply } from '../../lib/nodes/redis-connection.js';
import { lostOutcome, unsentOutcome } from '../../lib/nodes/redis-outcomes.js';
import { afterTest } from '../support/after-test.js';
import { untilCollected } from '../support/collect-garbage.js';
import { growth, LINEAR } from '../support/growth.js';
import { connect, server } from '../support/redis-of-spec.js';

/** Over a client that is connected. */
function connectionOver(client: Ioredis.Redis): Promise<RedisConnection> {
  return new Promise((resolve, reject) => {
    const listener = { ready: resolve, ended: () => reject(new Error('It has ended')) };
    new RedisConnection(client, systemEnvironment.now, listener);
  });
}

/** Asks for a reply; gives the reply, and who asked. */
function ask(
  connection: RedisConnection,
  command = encodeCommand('ping'),
): [Promise<unknown>, WeakRef<OnReply>] {
  let onReply: OnReply = () => undefined;
  const reply = new Promise((resolve) => {
    onReply = (failure, answer) => resolve(failure ?? answer);
  });
  connection.call(command, onReply);
  return [reply, new WeakRef(onReply)];
}

describe('a command', () => {
  it('leaves the server in no doubt, whatever its arguments are', async () => {
    const words = ['', ' ', '\0', '\r\n$4\r\nPING\r\n', 'ключ', '💰', '\u2028', 'x'.repeat(70_000)];
    const connection = await connectionOver(connect());

    const [reply] = ask(connection, encodeCommand('eval', ['return ARGV', 0, ...words, 5]));

    expect(await reply).toEqual([...words, '5']);
  });

  it('costs no more with thousands unanswered before it', async () => {
    const connection = await connectionOver(connect());
    const ping = encodeCommand('ping');
    const prepare = (count: number) => () =>
      new Promise<void>((resolve) => {
        let answered = 0;
        const onReply = (): void => {
          answered += 1;
          if (answered < count) return;
          expect([connection.backlog, connection.silentSince]).toEqual([0, null]);
          resolve();
        };
        for (let sent = 0; sent < count; sent += 1) connection.call(ping, onReply);
        expect(connection.backlog).toBe(count);
      });

    expect(await growth(prepare, 10_000)).toBeLessThan(LINEAR);
  });

  it('is one of its client’s own copy of ioredis', async () => {
    jest.resetModules();
    const copy = createRequire(import.meta.url)('ioredis') as typeof Ioredis;
    const client = new copy.Redis(server.url);
    afterTest(() => client.disconnect());
    const connection = await connectionOver(client);
    const written = jest.spyOn(client, 'sendCommand');

    const [reply] = ask(connection);

    expect(await reply).toBe('PONG');
    expect(connect()).not.toBeInstanceOf(copy.Redis);
    expect(written.mock.calls[0]?.[0]).toBeInstanceOf(copy.Command);
  });
});

describe('a client that is none', () => {
  it.each([
    ['has no commands, as a mock of the whole package', {}],
    ['has one that does nothing, as an automatic mock', { call: () => undefined }],
  ])('is told what to do in a test: one that %s', (_what, client) => {
    const listener = { ready: () => undefined, ended: () => undefined };
    const start = () =>
      new RedisConnection(client as Ioredis.Redis, systemEnvironment.now, listener);

    expect(start).toThrow(/^Expected a client of ioredis, got .* a mock .* leave the nodes out/);
  });
});

describe('a connection that has ended', () => {
  it('sends nothing, and says so when the call has returned', async () => {
    const client = connect();
    const connection = await connectionOver(client);
    connection.end(lostOutcome('given up'));
    const written = jest.spyOn(client, 'sendCommand');

    const order: unknown[] = [];
    connection.call(encodeCommand('ping'), (failure) => order.push(failure));
    order.push('returned');
    await setImmediate();

    expect(order).toEqual(['returned', unsentOutcome('connection closed', false)]);
    expect(written).not.toHaveBeenCalled();
  });

  it('is told as that where a command finds it out, not by an option of its client', async () => {
    const client = connect({ enableOfflineQueue: false });
    const connection = await connectionOver(client);
    client.stream.end();

    const [reply] = ask(connection);

    expect(await reply).toEqual(lostOutcome('connection closed'));
  });

  it('says why in one line, although some errors of TLS end in a new one', async () => {
    const client = connect();
    const reason = new Promise<string>((resolve, reject) => {
      const ready = (): boolean => client.emit('error', new Error('an alert:\nnumber 45\n'));
      const ended = ({ message }: { message: string }): void => resolve(message);
      new RedisConnection(client, systemEnvironment.now, { ready, ended });
      client.once('end', () => reject(new Error('It was not told')));
    });

    expect(await reason).toBe('an alert: number 45');
  });

  it('fails what was unanswered, of which nobody knows whether it ran', async () => {
    const connection = await connectionOver(connect());
    const replies = [ask(connection)[0], ask(connection)[0]];

    // That it is misconfigured says nothing of what was written before that showed.
    connection.end(unsentOutcome('given up', true));

    const unknown = { vote: 'failed', mayHold: true, isMisconfiguration: false };
    const failure = { ...unknown, message: 'given up' };
    expect(await Promise.all(replies)).toEqual([failure, failure]);
  });
});

describe('an error reply', () => {
  // ioredis 5 names an error after its class, and a bundler that minifies renames that.
  async function renameClassOfReplies(): Promise<void> {
    const error: unknown = await connect().call('nonsense').catch(identity);
    const prototype = Object.getPrototypeOf(error) as Error;
    const renamed = jest.spyOn(prototype, 'name', 'get').mockReturnValue('e');
    afterTest(() => renamed.mockRestore());
  }

  it('means what it says, whatever its class is called', async () => {
    await renameClassOfReplies();
    const connection = await connectionOver(connect());

    const [reply] = ask(connection, encodeCommand('nonsense'));

    expect(await reply).toMatchObject({ vote: 'failed', isMisconfiguration: true });
  });

  it('to the greeting ends the connection, whatever its class is called', async () => {
    await renameClassOfReplies();

    const connected = connectionOver(connect({ db: 99 }));

    await expect(connected).rejects.toThrow('It has ended');
  });

  function identity(error: unknown): unknown {
    return error;
  }
});

describe('a command that fails', () => {
  it('rejects nobody’s promise, where the application has wrapped how its clients send', async () => {
    const client = connect();
    const { sendCommand } = Object.getPrototypeOf(client) as Ioredis.Redis;
    // As a tracer does that awaits what it traces: its promise is another than that of ioredis.
    const traced = jest.spyOn(client, 'sendCommand').mockImplementation(async (command, stream) => {
      return await sendCommand.call(client, command, stream);
    });
    const onUnhandled = jest.fn();
    process.on('unhandledRejection', onUnhandled);
    afterTest(() => process.off('unhandledRejection', onUnhandled));
    const connection = await connectionOver(client);
    traced.mockClear();

    const [reply] = ask(connection, encodeCommand('evalsha', ['f'.repeat(40), 0]));

    expect(await reply).toMatchObject({ message: expect.stringMatching(/^NOSCRIPT/) });
    await setImmediate();
    expect(traced).toHaveBeenCalledTimes(1);
    expect(onUnhandled).not.toHaveBeenCalled();
  });
});

describe('a command that its client throws at', () => {
  it('ends the connection with what was thrown, when the call has returned', async () => {
    const client = connect();
    const order: unknown[] = [];
    const connection = await new Promise<RedisConnection>((resolve) => {
      const ended = ({ message }: { message: string }): unknown => order.push(message);
      new RedisConnection(client, systemEnvironment.now, { ready: resolve, ended });
    });
    // As a tracer does whose hook expects arguments of each command.
    jest.spyOn(client, 'sendCommand').mockImplementationOnce(() => {
      throw new TypeError('no arguments');
    });

    connection.call(encodeCommand('ping'), (failure) => order.push(failure));
    order.push('returned');
    await setImmediate();

    const reason = 'sendCommand threw TypeError: no arguments';
    expect(order).toEqual(['returned', reason, lostOutcome(reason)]);
  });
});

describe('a command that was answered', () => {
  it('lets go of who asked, although its client keeps it', async () => {
    const client = connect();
    const connection = await connectionOver(client);
    const written = jest.spyOn(client, 'sendCommand');

    const [reply, asker] = ask(connection);
    expect(await reply).toBe('PONG');
    await untilCollected(asker);

    expect(written.mock.calls).toHaveLength(1);
  });
});

describe('a new connection', () => {
  it('leaves no promise pending, which a search for leaks would find', async () => {
    const client = connect({ lazyConnect: true });
    const made: object[] = [];
    const hook = createHook({
      init(_id, type, _trigger, resource) {
        if (type === 'PROMISE') made.push(resource);
      },
    });

    hook.enable();
    new RedisConnection(client, systemEnvironment.now, { ready: () => {}, ended: () => {} });
    hook.disable();
    await setImmediate();

    expect(made).not.toEqual([]);
    expect(made.map((promise) => inspect(promise)).filter(isPending)).toEqual([]);
  });

  function isPending(text: string): boolean {
    return text.includes('<pending>');
  }
});
