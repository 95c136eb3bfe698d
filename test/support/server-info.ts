// What a server tells of itself by INFO.
import type { Redis } from 'ioredis';

/** Which history its data has: another one after a restart and after a promotion. */
export async function replidOf(client: Redis): Promise<string> {
  return /master_replid:(\w+)/.exec(await client.info('replication'))?.[1] ?? '';
}

/** How often each command ran since `CONFIG RESETSTAT`, by scripts too. */
export async function callsOn(client: Redis): Promise<Record<string, number>> {
  const stats = await client.info('commandstats');
  const all = [...stats.matchAll(/^cmdstat_(.+):calls=(\d+)/gm)];
  return Object.fromEntries(all.map(([, name = '', calls]) => [name, Number(calls)]));
}
