// A subscriber, and those who listen to it.
import type { Redis } from 'ioredis';

import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisSubscriber } from '../../lib/nodes/redis-subscriber.js';
import { targetOfUrl } from '../../lib/nodes/redis-target.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { client } from '../support/redis-of-spec.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import type { Told, WakeListener } from '../../lib/core/lock-node.js';

export const CHANNEL = 'redlock:wake:r';
export const COMMON = 'redlock:wake:';
export const STALL = 5_000;

export function subscriberTo(url: string): RedisSubscriber {
  return new RedisSubscriber(targetOfUrl(url, '', 'the node'), systemEnvironment, COMMON, STALL);
}

/** A subscriber in virtual time, and the connections that it makes. */
export function watch(url: string) {
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
export async function ended(connections: readonly Redis[]): Promise<void> {
  await Promise.all(
    connections.map((connection) => new Promise((resolve) => connection.once('end', resolve))),
  );
}

/** A listener that keeps what it hears. */
export class Ear implements WakeListener {
  readonly heard: number[] = [];
  readonly live: boolean[] = [];
  readonly onLive = (isLive: boolean): void => void this.live.push(isLive);
  readonly onWake = ({ listeners }: Told): void => void this.heard.push(listeners);

  /** Resolves when it has been told that often whether it is live. */
  async told(count: number): Promise<void> {
    await eventually(() => this.live.length >= count);
  }
}

/** The server ends all connections but the test's own. */
export async function cutOff(): Promise<void> {
  await client.call('CLIENT', 'KILL', 'SKIPME', 'yes');
}
