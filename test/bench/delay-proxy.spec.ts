import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import { startDelayProxy, type DelayProxy } from '../../bench/processes/delay-proxy.js';

const DELAY = 40;

/** What came back through the proxy, and when: letter by letter, each is sent once. */
class Echoes {
  readonly #arrivals = new Map<string, number>();

  constructor(readonly socket: Socket) {
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const letter of text) this.#arrivals.set(letter, performance.now());
    });
  }

  get letters(): string {
    return [...this.#arrivals.keys()].join('');
  }

  /** Sends one letter; when that was. */
  send(letter: string): number {
    const sentAt = performance.now();
    this.socket.write(letter);
    return sentAt;
  }

  async arrival(letter: string): Promise<number> {
    while (!this.#arrivals.has(letter)) await once(this.socket, 'data');
    return this.#arrivals.get(letter) ?? NaN;
  }
}

describe('a network made slow', () => {
  let proxy: DelayProxy;
  let echoes: Echoes;
  const server = createServer((socket) => socket.on('error', () => undefined).pipe(socket));

  beforeEach(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    proxy = await startDelayProxy((server.address() as AddressInfo).port);
    echoes = new Echoes(connect({ port: Number(new URL(proxy.url).port), host: '127.0.0.1' }));
    await once(echoes.socket, 'connect');
    // Else the system keeps a letter until the one before is acknowledged.
    echoes.socket.setNoDelay(true);
  });

  afterEach(async () => {
    echoes.socket.destroy();
    await proxy.close();
    server.close();
    await once(server, 'close');
  });

  it('delays all, in order, and the last one too, after which nothing comes', async () => {
    proxy.delay = DELAY;
    const sent = new Map<string, number>();
    for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
      sent.set(letter, echoes.send(letter));
      await pause(2);
    }
    const last = await echoes.arrival('z');
    expect(echoes.letters).toBe('abcdefghijklmnopqrstuvwxyz');
    for (const [letter, sentAt] of sent) {
      expect((await echoes.arrival(letter)) - sentAt).toBeGreaterThanOrEqual(DELAY);
    }
    expect(last - (sent.get('z') ?? NaN)).toBeLessThan(100 * DELAY);
  });

  it('does not let what comes after the delay overtake what came before', async () => {
    echoes.send('-');
    await echoes.arrival('-');
    proxy.delay = DELAY;
    const sentAt = echoes.send('a');
    await pause(5);
    // A busy process may have come to the timer first: the proxy has it when all was read.
    for (let turn = 0; turn < 3; turn += 1) await nextTurn();
    proxy.delay = 0;
    echoes.send('b');
    await echoes.arrival('b');
    expect(echoes.letters).toBe('-ab');
    expect((await echoes.arrival('b')) - sentAt).toBeGreaterThanOrEqual(DELAY);
  });

  it('adds nothing to speak of where there is no delay', async () => {
    const durations: number[] = [];
    for (const letter of 'abcdefghijklmnopqrstuvwxyz') {
      const sentAt = echoes.send(letter);
      durations.push((await echoes.arrival(letter)) - sentAt);
    }
    // A busy machine delays some of them.
    expect(Math.min(...durations)).toBeLessThan(DELAY);
  });
});
