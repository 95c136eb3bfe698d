// Wake-ups over a real server, and what is left of them when the connection, the server or the
// right to subscribe is gone.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import type { RedisSubscriber } from '../../lib/nodes/redis-subscriber.js';
import { untilCollected } from '../support/collect-garbage.js';
import { eventually } from '../support/eventually.js';
import { client, connect, server } from '../support/redis-of-spec.js';
import { callsOn } from '../support/server-info.js';
import { CHANNEL, COMMON, cutOff, Ear, ended, subscriberTo, watch } from './subscriber-scene.js';

let subscriber: RedisSubscriber;

beforeEach(() => {
  subscriber = subscriberTo(server.url);
});

afterEach(() => subscriber.close());

async function subscriptions(channel = CHANNEL): Promise<number> {
  const [, count] = (await client.pubsub('NUMSUB', channel)) as [string, number];
  return count;
}

/** Does something that the server, busy with a script, refuses: a subscription, or its end. */
async function whileBusy(act: () => void): Promise<void> {
  const busy = connect();
  const isBusy = async (): Promise<boolean> => (await client.ping().catch(() => 'BUSY')) === 'BUSY';
  await client.config('SET', 'busy-reply-threshold', '10');
  await client.config('RESETSTAT');
  const script = busy.eval('while true do end', 0).catch(() => undefined);
  await eventually(isBusy);
  act();
  await nextTurn();
  // What was sent before the first is read, at the latest, with it: before the second.
  await isBusy();
  await isBusy();
  await client.script('KILL');
  await script;
  await client.config('SET', 'busy-reply-threshold', '5000');
  expect(await client.info('commandstats')).toMatch(/subscribe:.*rejected_calls=[1-9]/);
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

  it('subscribes and unsubscribes for all calls together, in the context of none', async () => {
    const calls = new AsyncLocalStorage<string>();
    const { connections, watched } = watch(server.url);
    const first = new Ear();
    watched.subscribe('redlock:wake:first', first);
    await first.told(1);
    const writtenIn: unknown[] = [];
    for (const connection of connections) {
      const send = connection.sendCommand.bind(connection);
      connection.sendCommand = (...command) => {
        writtenIn.push([command[0].name, calls.getStore()]);
        return send(...command);
      };
    }

    const ear = new Ear();
    const stop = calls.run('call', () => watched.subscribe(CHANNEL, ear));
    await ear.told(1);
    calls.run('call', stop);
    await eventually(async () => (await subscriptions()) === 0);

    expect(writtenIn).toEqual([
      ['subscribe', undefined],
      ['unsubscribe', undefined],
    ]);
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
    // Whoever has stopped listening may say so again.
    stop();
    await second.told(1);
    await client.publish(CHANNEL, '1');

    await eventually(() => second.heard.length === 1);
  });

  it('tells nothing to whoever stops listening in the same tick', async () => {
    const [first, second] = [new Ear(), new Ear()];
    subscriber.subscribe(CHANNEL, first);
    await first.told(1);

    subscriber.subscribe(CHANNEL, second)();
    await new Promise(setImmediate);

    expect([first.live, second.live]).toEqual([[true], []]);
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

  it('hears all that is wanted after a connection that was lost as the last one stopped', async () => {
    const [first, second, third] = [new Ear(), new Ear(), new Ear()];
    const stop = subscriber.subscribe(CHANNEL, first);
    await first.told(1);

    stop();
    subscriber.renew();
    await nextTurn();
    subscriber.subscribe(`${CHANNEL}:2`, second);
    await second.told(1);
    subscriber.subscribe(`${CHANNEL}:3`, third);
    await third.told(1);

    expect([first, second, third].map(({ live }) => live)).toEqual([[true], [true], [true]]);
  });

  it('is closed for good', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);
    await ear.told(1);

    watched.close();
    watched.subscribe('another', new Ear());
    await eventually(async () => (await subscriptions()) === 0);

    expect(ear.live).toEqual([true, false]);
    expect([connections.length, environment.pendingTimers]).toEqual([1, 0]);
  });

  it('is never live without the right to subscribe, and does no harm', async () => {
    await client.acl('SETUSER', 'deaf', 'on', '>secret', '~*', '+@all', '-subscribe');
    const deaf = subscriberTo(server.url.replace('//', '//deaf:secret@'));
    const ear = new Ear();

    const stop = deaf.subscribe(CHANNEL, ear);
    await eventually(async () => (await client.info('errorstats')).includes('NOPERM'));
    await nextTurn();
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
});
