// A subscriber's connection that is given up: what is owed on it, and what it still says.
import { setImmediate as nextTurn } from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';

import { eventually } from '../support/eventually.js';
import { server } from '../support/redis-of-spec.js';
import { startPretender, startProxy } from '../support/servers-of-test.js';
import { CHANNEL, COMMON, Ear, ended, STALL, watch } from './subscriber-scene.js';

/** A server's answer to a subscription. */
function subscribed(words: string): string {
  const names = words.split('\r\n').filter((word) => word.startsWith(COMMON));
  return names
    .map((name) => `*3\r\n$9\r\nsubscribe\r\n$${name.length}\r\n${name}\r\n:1\r\n`)
    .join('');
}

describe('a subscriber', () => {
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

  it('gives up a connection, too, that died when it had answered one of two subscriptions', async () => {
    const { address } = await startPretender((words) => {
      if (!words.includes('subscribe')) return '+OK\r\n';
      return words.includes(`${COMMON}last`) ? null : subscribed(words);
    });
    const { connections, environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    const [first, second] = [new Ear(), new Ear()];
    watched.subscribe(`${COMMON}first`, first);
    await first.told(1);
    watched.subscribe(`${COMMON}second`, second);
    await nextTurn();
    watched.subscribe(`${COMMON}last`, new Ear());
    await second.told(1);

    // It has answered in the first of the two times that it is given.
    await environment.advance(STALL + 100);
    const before = connections.length;
    await environment.advance(STALL);

    expect(before).toBe(1);
    expect(second.live.slice(0, 2)).toEqual([true, false]);
    expect(connections).toHaveLength(2);
  });

  it('gives up the next connection, too, whatever the one before still owed', async () => {
    let isHung = false;
    const { address } = await startPretender((words) =>
      isHung || words.includes('subscribe') ? null : '+OK\r\n',
    );
    const { connections, environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    watched.subscribe(CHANNEL, new Ear());
    await new Promise((resolve) => connections[0]?.once('ready', resolve));
    const end = ended(connections);

    isHung = true;
    watched.renew();
    await end;
    const before = connections.length;
    await environment.advance(STALL + 100);

    expect([before, connections.length]).toEqual([2, 3]);
  });

  it('forgets a connection that is ready as it is given up', async () => {
    const { connections, environment, watched } = watch(server.url);
    const ear = new Ear();
    watched.subscribe(CHANNEL, ear);

    connections[0]?.prependOnceListener('ready', () => watched.renew());
    await ear.told(1);
    await eventually(() => environment.pendingTimers === 0);

    expect(ear.live).toEqual([true]);
    expect(connections).toHaveLength(2);
  });

  it('believes nothing that a busy server says after the refusal for which it is given up', async () => {
    let isBusy = false;
    const { address } = await startPretender((words) => {
      if (words.includes('unsubscribe')) {
        isBusy = true;
        return null;
      }
      const answer = words.includes('subscribe') ? subscribed(words) : '+OK\r\n';
      return isBusy ? `-BUSY Redis is busy running a script.\r\n${answer}` : answer;
    });
    const { connections, environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    const [first, second] = [new Ear(), new Ear()];
    const stop = watched.subscribe(`${COMMON}first`, first);
    await first.told(1);
    const end = ended(connections);

    stop();
    watched.subscribe(`${COMMON}second`, second);
    await end;
    const before = [...second.live];
    isBusy = false;
    await environment.advance(100);
    await second.told(1);

    expect([before, second.live]).toEqual([[], [true]]);
  });

  it('leaves no timer when it is closed while an answer is owed', async () => {
    const { address, sockets } = await startPretender(() => null);
    const { environment, watched } = watch(`redis://127.0.0.1:${address.port}`);
    watched.subscribe(CHANNEL, new Ear());
    await eventually(() => sockets.size === 1);
    const before = environment.pendingTimers;

    watched.close();

    expect([before, environment.pendingTimers]).toEqual([1, 0]);
  });
});
