// The connection of a subscriber: when it is made, kept, and made anew.
import { setImmediate as nextTurn } from 'node:timers/promises';

import { describe, expect, it, jest } from '@jest/globals';
import type { Redis } from 'ioredis';

import type { RedisSubscriber } from '../../lib/nodes/redis-subscriber.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { client, connect, server } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';
import { startPretender } from '../support/servers-of-test.js';
import { CHANNEL, cutOff, Ear, ended, STALL, watch } from './subscriber-scene.js';

/** Where a server was that has stopped. */
async function absentUrl(): Promise<string> {
  const absent = await startRedisServer();
  await absent.stop();
  return absent.url;
}

describe('a subscriber', () => {
  it('is connected no sooner for somebody who comes to listen', async () => {
    const { connections, environment, watched } = watch(await absentUrl());
    const subscribe = (): (() => void) => watched.subscribe(CHANNEL, new Ear());
    const stop = subscribe();
    await ended(connections);

    stop();
    subscribe()();
    watched.subscribe('another', new Ear());
    const before = connections.length;
    await environment.advance(100);

    expect([before, connections.length]).toEqual([1, 2]);
  });

  it('is connected no sooner, either, where nobody listened when it failed', async () => {
    const { connections, watched } = watch(await absentUrl());

    watched.subscribe(CHANNEL, new Ear())();
    await ended(connections);
    watched.subscribe(CHANNEL, new Ear());

    expect(connections).toHaveLength(1);
  });

  it('is connected less and less often to a server that cuts it off each time', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    const lackOf = async (age: number): Promise<number> => {
      const { length } = connections;
      await ear.told(2 * length - 1);
      await environment.advance(age);
      const end = ended(connections.slice(-1));
      await cutOff();
      await end;
      const brokenAt = environment.now();
      while (connections.length === length) await environment.advance(25);
      return environment.now() - brokenAt;
    };

    for (let count = 0; count < 6; count += 1) await lackOf(10);
    const lacks = [await lackOf(10), await lackOf(2_000)] as const;

    expect(lacks[0]).toBeGreaterThan(1_000);
    expect(lacks[1]).toBeLessThan(500);
  });

  it('tells nobody that it hears releases after the connection was lost in the same tick', async () => {
    const { watched } = watch(server.url);
    const first = new Ear();
    watched.subscribe(CHANNEL, first);
    await first.told(1);
    const second = new Ear();

    watched.subscribe(CHANNEL, second);
    watched.close();
    await new Promise(setImmediate);

    expect(second.live).toEqual([false]);
  });

  it('is connected at once when the server is reached anew', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    await ear.told(1);
    const end = ended(connections);
    await cutOff();
    await end;

    watched.renew();
    await ear.told(3);

    expect(ear.live).toEqual([true, false, true]);
    expect(connections).toHaveLength(2);
    expect(environment.pendingTimers).toBe(0);
  });

  it('hears what is wanted while it is not connected, and what is wanted later', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ears = [new Ear(), new Ear(), new Ear()] as const;
    watched.subscribe('first', ears[0]);
    await ears[0].told(1);
    const end = ended(connections);
    await cutOff();
    await end;

    watched.subscribe('second', ears[1]);
    await nextTurn();
    await environment.advance(100);
    await ears[1].told(1);
    watched.subscribe('third', ears[2]);
    await ears[2].told(1);

    expect(ears.map(({ live }) => live)).toEqual([[true, false, true], [true], [true]]);
  });

  it('keeps its connection where it has no right to subscribe: another would not help', async () => {
    await client.acl('SETUSER', 'deaf', 'on', '>secret', '~*', '+@all', '-subscribe');
    const { connections, environment, watched } = watch(server.url.replace('//', '//deaf:secret@'));
    watched.subscribe(CHANNEL, new Ear());
    const refused = async () => (await client.info('errorstats')).includes('errorstat_NOPERM');
    await eventually(refused);
    await eventually(() => environment.pendingTimers === 0);

    await environment.advance(2 * STALL);

    expect(connections).toHaveLength(1);
  });

  it('keeps its connection where its server knows no subscriptions, as a proxy', async () => {
    const { address } = await startPretender((words) =>
      words.includes('subscribe') ? '-ERR unsupported command\r\n' : '+OK\r\n',
    );
    const { connections, environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    await eventually(() => environment.pendingTimers === 0);

    await environment.advance(2 * STALL);

    expect([connections.length, ear.live]).toEqual([1, []]);
  });

  it('bears that its client throws, as one does whose sending is wrapped, and hears the rest', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ears = [new Ear(), new Ear(), new Ear()] as const;
    const stop = watched.subscribe('first', ears[0]);
    await ears[0].told(1);
    const [connection = connect()] = connections;
    const sent = jest.spyOn(connection, 'sendCommand');
    const refuseOnce = (): unknown =>
      sent.mockImplementationOnce(() => {
        throw new Error('no trace');
      });

    refuseOnce();
    watched.subscribe('second', ears[1]);
    await nextTurn();
    refuseOnce();
    stop();
    watched.subscribe(CHANNEL, ears[2]);
    await ears[2].told(1);

    expect(ears.map(({ live }) => live)).toEqual([[true], [], [true]]);
    expect([connections.length, environment.pendingTimers]).toEqual([1, 0]);
  });

  it('bears that the server refuses its password, without a sound', async () => {
    const { connections, watched } = watch(server.url.replace('//', '//nobody:wrong@'));
    const sound = jest.spyOn(console, 'error').mockReturnValue();
    afterTest(() => sound.mockRestore());

    watched.subscribe(CHANNEL, new Ear());
    await ended(connections);

    expect(sound).not.toHaveBeenCalled();
  });
});

describe('a subscriber to whom nobody listens any more', () => {
  async function hearsAgain(watched: RedisSubscriber): Promise<void> {
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    await ear.told(1);
    await client.publish(CHANNEL, '1');
    await eventually(() => ear.heard.length === 1);
  }

  async function startLive() {
    const { watched, ...rest } = watch(server.url);
    const ear = new Ear();
    const stop = watched.subscribe(CHANNEL, ear);
    await ear.told(1);
    return { watched, stop, ...rest };
  }

  async function cutAllOff(connections: readonly Redis[]): Promise<void> {
    const end = ended(connections);
    await cutOff();
    await end;
  }

  it('stays away when it is cut off', async () => {
    const { connections, environment, stop } = await startLive();
    stop();

    await cutAllOff(connections);
    await environment.advance(5_000);

    expect(environment.pendingTimers).toBe(0);
    expect(connections).toHaveLength(1);
  });

  it('stays away when it was about to connect anew, until somebody does', async () => {
    const { connections, environment, stop, watched } = await startLive();
    await cutAllOff(connections);
    const timers = environment.pendingTimers;

    stop();
    await environment.advance(5_000);

    expect(timers).toBe(1);
    expect(connections).toHaveLength(1);
    await hearsAgain(watched);
  });

  it('gives up its connection when the server is reached anew, and makes none until somebody does', async () => {
    const { connections, stop, watched } = await startLive();
    stop();

    watched.renew();

    expect(connections).toHaveLength(1);
    const clients = async (): Promise<string> => String(await client.client('LIST'));
    await eventually(async () => !(await clients()).includes('name=nestjs-locked'));
    await hearsAgain(watched);
  });
});
