// Thousands of channels over one connection.
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';

import type { RedisSubscriber } from '../../lib/nodes/redis-subscriber.js';
import { eventually } from '../support/eventually.js';
import { client, server } from '../support/redis-of-spec.js';
import { callsOn } from '../support/server-info.js';
import { COMMON, cutOff, Ear, subscriberTo } from './subscriber-scene.js';

const COUNT = 3_000;
/** At most 128 channels in each. */
const COMMANDS = Math.ceil(COUNT / 128);

let subscriber: RedisSubscriber;

beforeEach(async () => {
  subscriber = subscriberTo(server.url);
  await listening(['first']);
  await client.config('RESETSTAT');
});

afterEach(() => subscriber.close());

/** Resolves when each has been told whether it is live. */
async function allTold(ears: readonly Ear[]): Promise<void> {
  // One poll for all: thousands, one for each, would leave a busy machine no time to hear anything.
  await eventually(() => ears.every(({ live }) => live.length > 0));
}

/** Resolves, when all are live, to what ends each. */
async function listening(names: readonly string[]): Promise<(() => void)[]> {
  const ears = names.map(() => new Ear());
  const stops = ears.map((ear, index) => subscriber.subscribe(`${COMMON}${names[index]}`, ear));
  await allTold(ears);
  return stops;
}

const crowd = Array.from({ length: COUNT }, (_, index) => `sku:${index}`);

async function channels(): Promise<number> {
  return Number(/pubsub_channels:(\d+)/.exec(await client.info('stats'))?.[1]);
}

describe('thousands of channels', () => {
  it('that are wanted in one tick are named in few commands, and so are those that end', async () => {
    const stops = await listening(crowd);
    const begun = await callsOn(client);
    const wanted = await channels();

    for (const stop of stops) stop();
    await eventually(async () => (await channels()) === 2);

    expect(begun.subscribe).toBe(COMMANDS);
    expect(wanted).toBe(COUNT + 2);
    expect((await callsOn(client)).unsubscribe).toBe(COMMANDS);
  });

  it('that are wanted in one tick, but one after the other, are named in one command', async () => {
    const ears = crowd.slice(0, 100).map(() => new Ear());

    for (const [index, ear] of ears.entries()) {
      subscriber.subscribe(`${COMMON}${crowd[index]}`, ear);
      await Promise.resolve();
    }
    await allTold(ears);

    expect((await callsOn(client)).subscribe).toBe(1);
  });

  it('are named in few commands on a new connection', async () => {
    await listening(crowd);
    await client.config('RESETSTAT');

    await cutOff();
    await eventually(() => !subscriber.isLive(`${COMMON}${crowd[0]}`));
    await eventually(() => crowd.every((name) => subscriber.isLive(`${COMMON}${name}`)));

    expect((await callsOn(client)).subscribe).toBeLessThanOrEqual(COMMANDS + 1);
    expect(await channels()).toBe(COUNT + 2);
  });

  it('may end and be wanted again in one tick: then they are heard', async () => {
    const stops = await listening(crowd);
    const before = await callsOn(client);

    for (const stop of stops) stop();
    await listening(crowd);

    const after = await callsOn(client);
    expect(after.unsubscribe).toBeUndefined();
    expect(after.subscribe).toBe(2 * (before.subscribe ?? 0));
    expect(await channels()).toBe(COUNT + 2);
  });

  it('of which none is wanted any more at the end of the tick leave nothing behind', async () => {
    for (const name of crowd) subscriber.subscribe(`${COMMON}${name}`, new Ear())();

    await listening(['last']);

    expect(await channels()).toBe(3);
    expect((await callsOn(client)).subscribe).toBe(1);
  });
});
