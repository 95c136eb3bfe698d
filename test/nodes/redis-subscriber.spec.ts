// Wake-ups over a real server, and what is left of them when the connection, the server or the
// right to subscribe is gone.
import { AsyncLocalStorage } from 'node:async_hooks';

import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Redis } from 'ioredis';

import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisSubscriber } from '../../lib/nodes/redis-subscriber.js';
import { targetOfUrl } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { client, connect, server } from '../support/redis-of-spec.js';
import { startRedisServer } from '../support/redis-servers.js';
import { callsOn } from '../support/server-info.js';
import { startPretender, startProxy } from '../support/servers-of-test.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { WakeListener } from '../../lib/core/lock-node.js';

const CHANNEL = 'redlock:wake:r';
const COMMON = 'redlock:wake:';
const STALL = 5_000;

let subscriber: RedisSubscriber;

beforeEach(() => {
  subscriber = subscriberTo(server.url);
});

afterEach(() => subscriber.close());

function subscriberTo(url: string): RedisSubscriber {
  return new RedisSubscriber(targetOfUrl(url, '', 'the node'), systemEnvironment, COMMON, STALL);
}

/** A subscriber in virtual time, and the connections that it makes. */
function watch(url: string) {
  const target = targetOfUrl(url, '', 'the node');
  const connections: Redis[] = [];
  const connect = (): Redis => {
    const made = target.connect();
    connections.push(made);
    return made;
  };
  const environment = new SimulatedEnvironment();
  const watched = new RedisSubscriber({ ...target, connect }, environment, COMMON, STALL);
  afterTest(() => watched.close());
  return { connections, environment, watched };
}

/** Resolves when the connections there are now have ended. */
async function ended(connections: readonly Redis[]): Promise<void> {
  await Promise.all(
    connections.map((connection) => new Promise((resolve) => connection.once('end', resolve))),
  );
}

/** A listener that keeps what it hears. */
class Ear implements WakeListener {
  readonly heard: number[] = [];
  readonly live: boolean[] = [];
  readonly onLive = (isLive: boolean): void => void this.live.push(isLive);
  readonly onWake = (listeners: number): void => void this.heard.push(listeners);

  /** Resolves when it has been told that often whether it is live. */
  async told(count: number): Promise<void> {
    await eventually(() => this.live.length >= count);
  }
}

async function subscriptions(channel = CHANNEL): Promise<number> {
  const [, count] = (await client.pubsub('NUMSUB', channel)) as [string, number];
  return count;
}

/** The server ends all connections but the test's own. */
async function cutOff(): Promise<void> {
  await client.call('CLIENT', 'KILL', 'SKIPME', 'yes');
}

/** Does something that the server, busy with a script, refuses. */
async function whileBusy(act: () => void): Promise<void> {
  const threshold = 'busy-reply-threshold';
  const [, before = ''] = await client.config('GET', threshold);
  const busy = connect();
  await client.config('SET', threshold, '10');
  const script = busy.eval('while true do end', 0).catch(() => undefined);
  await eventually(async () => (await client.ping().catch(() => 'BUSY')) === 'BUSY');
  act();
  await new Promise((resolve) => setTimeout(resolve, 100));
  await client.script('KILL');
  await script;
  await client.config('SET', threshold, before);
  expect(await client.info('errorstats')).toContain('errorstat_BUSY');
}

describe('a subscriber', () => {
  it('does not connect before somebody listens', async () => {
    const before = Number(/connected_clients:(\d+)/.exec(await client.info('clients'))?.[1]);

    const stop = subscriber.subscribe(CHANNEL, new Ear());
    await eventually(async () => (await subscriptions()) === 1);
    const after = Number(/connected_clients:(\d+)/.exec(await client.info('clients'))?.[1]);
    stop();

    expect(after).toBe(before + 1);
  });

  it('keeps nothing of the call that listened first, however long it is connected', async () => {
    const storage = new AsyncLocalStorage<object>();
    const listenInCall = async (): Promise<WeakRef<object>> => {
      const call = {};
      const ear = new Ear();
      const stop = storage.run(call, () => subscriber.subscribe(CHANNEL, ear));
      await ear.told(1);
      stop();
      return new WeakRef(call);
    };

    const call = await listenInCall();
    const later = new Ear();
    subscriber.subscribe('redlock:wake:other', later);
    await later.told(1);

    await untilCollected(call);
  });

  it('subscribes once for all listeners of a channel, and tells each of them', async () => {
    await client.config('RESETSTAT');
    const ears = [new Ear(), new Ear()];
    const [first] = ears.map((ear) => subscriber.subscribe(CHANNEL, ear));
    await Promise.all(ears.map((ear) => ear.told(1)));
    const late = new Ear();
    subscriber.subscribe(CHANNEL, late);
    await late.told(1);

    first?.();
    await client.publish(CHANNEL, '3');
    await eventually(() => late.heard.length === 1);

    expect(await callsOn(client)).toMatchObject({ subscribe: 1 });
    expect(await subscriptions()).toBe(1);
    expect(ears.map(({ heard }) => heard)).toEqual([[], [3]]);
    expect([...ears, late].map(({ live }) => live)).toEqual([[true], [true], [true]]);
  });

  it('ends the subscription with the last listener', async () => {
    const ear = new Ear();
    const stop = subscriber.subscribe(CHANNEL, ear);
    await ear.told(1);

    stop();

    await eventually(async () => (await subscriptions()) === 0);
    expect(subscriber.isLive(CHANNEL)).toBe(false);
  });

  it('is subscribed to the common channel as long as it is to any', async () => {
    const ears = [new Ear(), new Ear()];
    const [first, second] = ears.map((ear, index) =>
      subscriber.subscribe(`${COMMON}${index}`, ear),
    );
    await Promise.all(ears.map((ear) => ear.told(1)));

    first?.();
    await eventually(async () => (await subscriptions(`${COMMON}0`)) === 0);
    const afterOne = await subscriptions(COMMON);
    second?.();
    await eventually(async () => (await subscriptions(`${COMMON}1`)) === 0);

    expect([afterOne, await subscriptions(COMMON)]).toEqual([1, 0]);
  });

  it('subscribes anew when a channel is wanted again at once', async () => {
    const [first, second] = [new Ear(), new Ear()];
    const stop = subscriber.subscribe(CHANNEL, first);
    await first.told(1);

    stop();
    subscriber.subscribe(CHANNEL, second);
    await second.told(1);
    await client.publish(CHANNEL, '1');

    await eventually(() => second.heard.length === 1);
  });

  it('takes any message for a wake-up: what is no count means one', async () => {
    const ear = new Ear();
    subscriber.subscribe(CHANNEL, ear);
    await ear.told(1);

    for (const message of ['2', '', '-1', 'NaN', '1e999', '{"__proto__":1}', '0', '1.5']) {
      await client.publish(CHANNEL, message);
    }

    await eventually(() => ear.heard.length === 8);
    expect(ear.heard).toEqual([2, 1, 1, 1, 1, 1, 1, 1]);
  });

  it('bears what is told to nobody here: on the common channel, or when all have stopped', async () => {
    const [ear, late] = [new Ear(), new Ear()];
    subscriber.subscribe(CHANNEL, ear);
    const stop = subscriber.subscribe('left', late);
    await Promise.all([ear.told(1), late.told(1)]);

    await client.publish(COMMON, '1');
    stop();
    stop();
    await client.publish('left', '1');
    await client.publish(CHANNEL, '1');

    await eventually(() => ear.heard.length === 1);
    expect([ear.live, late.heard]).toEqual([[true], []]);
  });

  it('says when it hears no more, connects anew, and says when it hears again', async () => {
    const ear = new Ear();
    subscriber.subscribe(CHANNEL, ear);
    await ear.told(1);

    await cutOff();
    await ear.told(3);
    await client.publish(CHANNEL, '1');

    await eventually(() => ear.heard.length === 1);
    expect(ear.live).toEqual([true, false, true]);
  });

  it('gives up an old connection for a new one when the server is reached anew', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    await ear.told(1);
    const end = ended(connections);

    watched.renew();
    await Promise.all([end, ear.told(3)]);

    expect(ear.live).toEqual([true, false, true]);
    expect([connections.length, environment.pendingTimers]).toEqual([2, 0]);
    await eventually(async () => (await subscriptions()) === 1);
  });

  it('is closed for good', async () => {
    const ear = new Ear();
    subscriber.subscribe(CHANNEL, ear);
    await ear.told(1);

    subscriber.close();
    subscriber.subscribe('another', new Ear());
    await eventually(async () => (await subscriptions()) === 0);
    await new Promise((resolve) => setTimeout(resolve, 150));

    expect(ear.live).toEqual([true, false]);
    expect(await client.pubsub('CHANNELS')).toEqual([]);
  });

  it('is never live without the right to subscribe, and does no harm', async () => {
    await client.acl('SETUSER', 'deaf', 'on', '>secret', '~*', '+@all', '-subscribe');
    const deaf = subscriberTo(server.url.replace('//', '//deaf:secret@'));
    const ear = new Ear();

    const stop = deaf.subscribe(CHANNEL, ear);
    await eventually(async () => String(await client.call('CLIENT', 'LIST')).includes('user=deaf'));
    await new Promise((resolve) => setTimeout(resolve, 100));
    stop();
    deaf.close();

    expect(ear.live).toEqual([]);
  });

  it('hears again after a busy server has refused the subscription', async () => {
    const [earlier, ear] = [new Ear(), new Ear()];
    subscriber.subscribe('earlier', earlier);
    await earlier.told(1);

    await whileBusy(() => subscriber.subscribe(CHANNEL, ear));

    await ear.told(1);
    expect(await subscriptions()).toBe(1);
  });

  it('leaves no subscription behind where a busy server has refused its end', async () => {
    const [earlier, ear] = [new Ear(), new Ear()];
    subscriber.subscribe('earlier', earlier);
    const stop = subscriber.subscribe(CHANNEL, ear);
    await ear.told(1);

    await whileBusy(stop);

    await eventually(async () => (await subscriptions()) === 0);
    await eventually(() => subscriber.isLive('earlier'));
  });

  it('waits for a server that is not there, without a sound', async () => {
    const absent = await startRedisServer();
    await absent.stop();
    const lonely = subscriberTo(absent.url);
    const ear = new Ear();

    lonely.subscribe(CHANNEL, ear);
    await new Promise((resolve) => setTimeout(resolve, 200));
    lonely.close();

    expect(ear.live).toEqual([]);
  });

  it('is connected no sooner for somebody who comes to listen', async () => {
    const absent = await startRedisServer();
    await absent.stop();
    const { connections, environment, watched } = watch(absent.url);
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
    const absent = await startRedisServer();
    await absent.stop();
    const { connections, watched } = watch(absent.url);

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

  it('gives up a connection whose greeting is never answered, and makes another', async () => {
    const { address, sockets } = await startPretender(() => null);
    const { connections, environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    watched.subscribe(CHANNEL, new Ear());
    await eventually(() => sockets.size === 1);

    await environment.advance(STALL - 1);
    const before = connections.length;
    await environment.advance(100);

    expect([before, connections.length]).toEqual([1, 2]);
  });

  it('gives up a connection that died without a word when it answers no subscription', async () => {
    const proxy = await startProxy(server);
    const { connections, environment, watched } = watch(proxy.url);
    const ear = new Ear();
    const later = new Ear();
    watched.subscribe(CHANNEL, ear);
    await ear.told(1);
    proxy.holdRequests();
    watched.subscribe('redlock:wake:later', later);

    await environment.advance(STALL);
    proxy.pass();
    await environment.advance(100);
    await later.told(1);

    expect(ear.live.slice(0, 2)).toEqual([true, false]);
    expect(later.live).toEqual([true]);
    expect(connections).toHaveLength(2);
    await eventually(() => environment.pendingTimers === 0);
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
