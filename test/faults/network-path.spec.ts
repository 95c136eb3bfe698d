import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import { eventually } from '../support/eventually.js';
import { NetworkPath } from './network-path.js';

describe('a network path', () => {
  let server: Server;
  let path: NetworkPath;
  let client: Socket;
  let requests: string;
  let replies: string;

  beforeEach(async () => {
    requests = replies = '';
    // It answers in capitals.
    server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        requests += chunk.toString();
        socket.write(chunk.toString().toUpperCase());
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    path = await NetworkPath.open((server.address() as AddressInfo).port);
    client = connect(Number(new URL(path.url).port), '127.0.0.1');
    client.on('error', () => undefined);
    client.on('data', (chunk) => (replies += chunk.toString()));
    await exchange('first ');
  });

  afterEach(async () => {
    client.destroy();
    await path.close();
    server.close();
  });

  async function exchange(text: string): Promise<void> {
    client.write(text);
    await eventually(() => replies.endsWith(text.toUpperCase()));
  }

  it('holds requests, and delivers them in order later', async () => {
    path.hold({ requests: true, replies: false });
    client.write('a');
    client.write('b');
    await new Promise((resolve) => setTimeout(resolve, 20));
    const whileHeld = requests;

    path.heal();
    await eventually(() => replies === 'FIRST AB');

    expect(whileHeld).toBe('first ');
  });

  it('holds replies to requests that arrived', async () => {
    path.hold({ requests: false, replies: true });
    client.write('a');
    await eventually(() => requests === 'first a');
    const whileHeld = replies;

    path.heal();
    await eventually(() => replies === 'FIRST A');

    expect(whileHeld).toBe('FIRST ');
  });

  it('delivers what it held for a client that has given up', async () => {
    path.hold({ requests: true, replies: true });
    client.write('late');
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.destroy();
    await once(client, 'close');

    path.heal();

    await eventually(() => requests === 'first late');
  });

  it('takes its time when it is slow', async () => {
    path.delay(60);
    const startedAt = performance.now();

    await exchange('slow');

    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(59);
  });

  it.each([
    [0, 'FIRST '],
    [2, 'FIRST AA'],
  ])('delivers the next reply %i times, and those after it once', async (copies, expected) => {
    path.repeatReplies(copies);
    client.write('a');
    await eventually(() => requests === 'first a');
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.write('b');

    await eventually(() => replies.endsWith('B'));
    expect(replies).toBe(`${expected}B`);
  });

  it('breaks the connection, and what was on the way is lost', async () => {
    path.hold({ requests: true, replies: false });
    client.write('lost');
    await new Promise((resolve) => setTimeout(resolve, 20));

    const closed = new Promise((resolve) => client.once('close', resolve));
    path.reset();
    await closed;
    path.heal();

    expect(requests).toBe('first ');
  });
});
