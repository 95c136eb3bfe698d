// Limit: what plain ioredis commands cost, one per node and operation.
import { Redis } from 'ioredis';

import type { Connect } from './candidate.js';
import { limitScripts, QuorumLimit, type LimitNode } from './quorum-limit.js';

export const connectPlainIoredis: Connect = async (urls, settings) => {
  const nodes = await Promise.all(urls.map((url) => connectNode(url)));
  return new QuorumLimit(nodes, settings);
};

async function connectNode(url: string): Promise<LimitNode> {
  const client = new Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
  });
  client.on('error', () => undefined);
  await client.connect();
  for (const { text } of Object.values(limitScripts)) await client.script('LOAD', text);
  return {
    set: (key, owner, ttl, onWord) => {
      client.set(key, owner, 'PX', ttl, 'NX').then(
        (reply) => onWord(reply === 'OK'),
        () => onWord(null),
      );
    },
    run: ({ sha, takesTtl }, key, owner, ttl, onWord) => {
      const reply = takesTtl
        ? client.evalsha(sha, 1, key, owner, ttl)
        : client.evalsha(sha, 1, key, owner);
      reply.then(
        (count) => onWord(count === 1),
        () => onWord(null),
      );
    },
    close: () => client.disconnect(),
  };
}
