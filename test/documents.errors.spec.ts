// Whatever a node may say of why it does not vote, the errors page has to tell what to do.
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';

import { describe, expect, it } from '@jest/globals';

import { afterTest } from './support/after-test.js';
import { acquire, inspect, requestFor, worldOf } from './support/node-harness.js';
import { startNode, startNodes, startServer } from './support/servers-of-test.js';

type Server = Awaited<ReturnType<typeof startServer>>;

describe('the table of what a node says', () => {
  const read = (file: string): string =>
    readFileSync(join(import.meta.dirname, '..', file), 'utf8');
  const [, page = ''] = read('docs/ERRORS.md').split('| a node says |');
  const rows = [...page.matchAll(/^\| `failed` \((.*?)\) \| (.*) \|$/gm)].map(
    ([, words = '', remedy = '']) => ({ words: words.replaceAll('"', '').split(', '), remedy }),
  );
  const remediesOf = (message: string): string[] =>
    rows.flatMap(({ words, remedy }) =>
      words.some((word) => message.includes(word)) ? [remedy] : [],
    );

  it('has all refusals that the library knows, but those that it deals with itself', () => {
    const [, ...sets] = read('lib/nodes/redis-outcomes.ts').split('new Set([');
    const codes = sets.flatMap((set) => [...(set.split(']')[0] ?? '').matchAll(/'(.*?)'/g)]);
    const messages = codes.map(([, code = '']) => code).filter((code) => code !== 'NOSCRIPT');

    expect(messages.length).toBeGreaterThan(15);
    expect(messages.filter((message) => remediesOf(message).length === 0)).toEqual([]);
  });

  it.each<[what: string, remedy: string, messagesOf: (server: Server) => Promise<string[]>]>([
    ['has reached maxclients', '`maxclients`', reachMaxClients],
    ['was killed while it owed an answer', 'restarted', killWhileItOwes],
    ['denies a command inside scripts', 'ACL', denySet],
    ['does not have the database', 'database', askForDatabase99],
    ['is a replica that waits for its master', 'name masters', waitForMaster],
    ['is told by a proxy whom it connects', '`send-proxy`', connectByProxyProtocol],
  ])('tells what to do about a server that %s', async (_what, remedy, messagesOf) => {
    const messages = await messagesOf(await startServer());

    expect(messages.length).toBeGreaterThan(0);
    for (const message of messages) {
      expect({ message, remedies: remediesOf(message).join('; ') }).toEqual({
        message,
        remedies: expect.stringContaining(remedy),
      });
    }
  });
});

// Which of the two is seen first, the server's words or its end, is chance.
async function reachMaxClients({ url, client }: Server): Promise<string[]> {
  await client.config('SET', 'maxclients', '1');
  const messages: string[] = [];
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const nodes = startNodes([url]);
    await nodes.log.untilState('down');
    messages.push(await whyUnknown(nodes.node));
    await nodes.close();
  }
  return messages;
}

async function killWhileItOwes(server: Server): Promise<string[]> {
  const { node } = await startNode(server.url);
  server.freeze();
  const answered = acquire(node, requestFor());
  // Until the request has arrived, so that it is there unread.
  await setTimeout(50);
  server.kill();
  return [messageOf(await answered)];
}

async function denySet({ url, client }: Server): Promise<string[]> {
  const { node } = await startNode(url);
  await client.call('ACL', 'SETUSER', 'default', '-set');
  return [messageOf(await acquire(node, requestFor()))];
}

async function askForDatabase99({ url }: Server): Promise<string[]> {
  const { node, log } = startNodes([`${url}/99`]);
  await log.untilState('refused');
  return [await whyUnknown(node)];
}

async function waitForMaster({ url, client }: Server): Promise<string[]> {
  const { node } = await startNode(url);
  await client.config('SET', 'replica-serve-stale-data', 'no');
  await client.call('REPLICAOF', '127.0.0.1', '1');
  return [messageOf(await acquire(node, requestFor()))];
}

// What is noticed first, the reply to the proxy's words or one that is out of step, is chance.
async function connectByProxyProtocol({ port }: Server): Promise<string[]> {
  const proxy = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
    upstream.write('PROXY TCP4 127.0.0.1 127.0.0.1 50000 6379\r\n');
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  afterTest(() => proxy.close());
  const messages: string[] = [];
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const nodes = startNodes([{ port: (proxy.address() as AddressInfo).port, host: '127.0.0.1' }]);
    await nodes.log.untilState('down');
    messages.push(await whyUnknown(nodes.node));
    await nodes.close();
  }
  return messages;
}

async function whyUnknown(node: Parameters<typeof inspect>[0]): Promise<string> {
  return messageOf(await inspect(node, worldOf(), 'r'));
}

function messageOf(answer: object): string {
  return 'message' in answer ? String(answer.message) : JSON.stringify(answer);
}
