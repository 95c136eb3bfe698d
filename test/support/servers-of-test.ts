// Servers, and nodes over them, that end with their test.
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';

import { afterAll, beforeAll, expect } from '@jest/globals';
import { Redis } from 'ioredis';

import type { Environment } from '../../lib/core/environment.js';
import type { LockNode } from '../../lib/core/lock-node.js';
import type { RedlockOptions } from '../../lib/core/options.js';
import type { NodeInput } from '../../lib/nodes/node-inputs.js';
import { afterTest } from './after-test.js';
import { inspect, testNodes, worldOf, type TestNodes } from './node-harness.js';
import { startRedisServer, type RedisServer } from './redis-servers.js';
import { callsOn } from './server-info.js';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js';

/** A node is suspended after 100 ms of silence and dropped after 300. */
export const IMPATIENT: RedlockOptions = { nodeTimeout: 50, stallTimeout: 300 };

/** A node is suspended after four seconds of silence. */
export const PATIENT: RedlockOptions = { nodeTimeout: 2_000 };

/** So many inspections are much to owe, and half of them are little. */
export const MANY = 1_400;

/** Fails a spec file at its end where anything in it left a rejection that nobody handled. */
export function expectNoUnhandledRejections(): void {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);

  beforeAll(() => void process.on('unhandledRejection', onUnhandled));

  afterAll(() => {
    process.off('unhandledRejection', onUnhandled);
    expect(unhandled).toEqual([]);
  });
}

/** A server, and a client of the test beside the node's own, which connects when it is used. */
export async function startServer(...args: string[]): Promise<RedisServer & { client: Redis }> {
  const server = await startRedisServer({ args });
  afterTest(() => server.stop());
  // Without a greeting, so that a password may be given later.
  const client = new Redis(server.url, {
    lazyConnect: true,
    protocol: 2,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
  });
  client.on('error', () => undefined);
  afterTest(() => disconnect(client));
  return Object.assign(server, { client });
}

/** Resolves when the client has ended. */
export async function disconnect(client: Redis): Promise<void> {
  if (client.status === 'end') return;
  const ended = new Promise((resolve) => client.once('end', resolve));
  client.disconnect();
  await ended;
}

/** A way to a server that can break. */
export async function startProxy(server: RedisServer): Promise<TcpProxy> {
  const proxy = await startTcpProxy(server.port);
  afterTest(() => proxy.close());
  return proxy;
}

/** Nodes over real servers, not awaited. */
export function startNodes(
  inputs: readonly NodeInput[],
  options: RedlockOptions = {},
  environment?: Environment,
): TestNodes {
  const nodes = testNodes(inputs, options, environment);
  afterTest(() => nodes.close());
  return nodes;
}

/** The same for one node, when it is up. */
export async function startNode(
  input: NodeInput,
  options: RedlockOptions = {},
  environment?: Environment,
): Promise<TestNodes> {
  const nodes = startNodes([input], options, environment);
  await nodes.log.untilState('up');
  return nodes;
}

/** Asks the node so often at once who holds `r`. */
export function inspectMany(node: LockNode, count: number): Promise<unknown> {
  const inspections = Array.from({ length: count }, () => inspect(node, worldOf(), 'r'));
  return Promise.all(inspections);
}

/** How often a server has run a command. */
export async function callsOf(client: Redis, command: string): Promise<number> {
  return (await callsOn(client))[command] ?? 0;
}

/** Listens, and answers each command with what `reply` gives for its words, if anything. */
export async function startPretender(
  reply: (words: string) => string | null,
  tls: TlsOptions | null = null,
) {
  const sockets = new Set<Socket>();
  const onSocket = (socket: Socket): void => {
    sockets.add(socket.on('error', () => undefined));
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (data) => {
      const commands = data.toString().split(/^(?=\*)/m);
      for (const words of commands) socket.write(reply(words) ?? '');
    });
  };
  const server = tls === null ? createServer(onSocket) : createTlsServer(tls, onSocket);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterTest(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    sockets,
    address: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
  };
}

/** What a Sentinel replies that knows no other one, and a master on `port` of this machine. */
export function replyAsSentinel(words: string, port: number): string {
  if (!words.includes('sentinel')) return '+OK\r\n';
  if (words.includes('sentinels')) return '*0\r\n';
  return `*2\r\n$9\r\n127.0.0.1\r\n$${`${port}`.length}\r\n${port}\r\n`;
}

/** Resolves when what was asked for in this tick is on its way. */
export function sent(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
