// A process that locks, for tests of what its end does. Started with JSON in argv.
import { setTimeout as sleep } from 'node:timers/promises';

import type { Milliseconds } from 'nestjs-locked';

import { startApplication } from './lock-domain.js';

/** What the process is to do. */
export interface HolderOrders {
  readonly nodes: readonly string[];
  readonly resource: string;
  readonly ttl: Milliseconds;
  /** How long the body lasts. */
  readonly duration: Milliseconds;
}

const { nodes, resource, ttl, duration } = JSON.parse(process.argv[2] ?? '') as HolderOrders;
const { app, redlock } = await startApplication(nodes, { ttlMax: ttl, ttl });
await redlock.using(resource, async () => {
  process.send?.('held');
  await sleep(duration);
});
await app.close();
process.send?.('closed', undefined, undefined, () => process.disconnect());
