// Replies to the calls of one tick: whose they are, and what they say.
import { describe, expect, it } from '@jest/globals';

import { eventually } from '../support/eventually.js';
import { requestFor, worldOf } from '../support/node-harness.js';
import { connect } from '../support/redis-of-spec.js';
import { systemEnvironment } from '../../lib/core/environment.js';
import { RedisBatch } from '../../lib/nodes/redis-batch.js';
import { RedisConnection } from '../../lib/nodes/redis-connection.js';
import { TAGS } from '../../lib/nodes/redis-stamp.js';
import { RedisTick } from '../../lib/nodes/redis-tick.js';

const world = worldOf();

describe('a reply', () => {
  const TENTHS_OF_MS = 17_954_552_040_752;

  /** All that the operations of one call are told, where the reply is made of the stamp of a count. */
  async function toldOf(
    names: readonly ('acquire' | 'extend' | 'release')[],
    replyWith: (stamp: (count: number) => number) => unknown,
  ) {
    const batch = new RedisBatch(
      new RedisTick(systemEnvironment),
      false,
      (_connection, { bytes }, onReply) => {
        const tag = tagIn(bytes);
        onReply(
          null,
          replyWith((count) => count * TAGS + tag),
        );
      },
    );
    let end: string | null = null;
    const connection = new RedisConnection(connect(), systemEnvironment.now, {
      ready: () => undefined,
      ended: ({ message }) => {
        end = message;
      },
    });
    const told: unknown[] = [];
    for (const [index, name] of names.entries()) {
      const request = { ...requestFor({ world, resources: [`r${index}`] }), wakes: false };
      batch.add(connection, {
        name,
        request,
        isListening: false,
        isSettled: () => false,
        onReply: (failure, said) => void told.push(failure?.message ?? said),
      });
    }
    await eventually(() => told.length >= names.length);
    return { told, end: end as string | null };
  }

  const THREE = ['acquire', 'extend', 'release'] as const;
  const MISDIRECTED = expect.stringMatching(/^A reply to another command/);

  it('with the stamp of the call says what it did, without it', async () => {
    const alone = await toldOf(['acquire'], (stamp) => stamp(TENTHS_OF_MS));
    const refused = await toldOf(['acquire'], (stamp) => [stamp(TENTHS_OF_MS), 'taken', 5, 0]);
    const alike = await toldOf(THREE, (stamp) => stamp(TENTHS_OF_MS));
    const mixed = await toldOf(THREE, (stamp) => [stamp(TENTHS_OF_MS), ['taken', 5, 0], 0, 2]);

    expect(alone).toEqual({ told: [TENTHS_OF_MS], end: null });
    expect(refused).toEqual({ told: [[TENTHS_OF_MS, 'taken', 5, 0]], end: null });
    expect(alike).toEqual({ told: [TENTHS_OF_MS, TENTHS_OF_MS, 0], end: null });
    expect(mixed).toEqual({
      told: [[TENTHS_OF_MS, 'taken', 5, 0], TENTHS_OF_MS, 2],
      end: null,
    });
  });

  it.each<[what: string, replyWith: (stamp: (count: number) => number) => unknown]>([
    ['the call before', (stamp) => stamp(TENTHS_OF_MS) - 1],
    ['the call after', (stamp) => [stamp(TENTHS_OF_MS) + 1, ['taken', 5, 0], 0, 2]],
    ['a command that gives nothing', () => null],
    ['a command that gives a list', () => ['taken', 0]],
    ['a command that gives an empty list', () => []],
    ['PTTL', (stamp) => stamp(-1)],
    ['SET', () => 'OK'],
    ['a command in MULTI', () => 'QUEUED'],
  ])('to %s answers none of them, and ends the connection', async (_what, replyWith) => {
    for (const names of [['acquire'], ['release'], THREE] as const) {
      const { told, end } = await toldOf(names, replyWith);

      expect(told).toEqual(names.map(() => MISDIRECTED));
      expect(end).toEqual(MISDIRECTED);
    }
  });

  it('has another stamp than those to the calls before', async () => {
    const tick = new RedisTick(systemEnvironment);

    const tags = Array.from({ length: TAGS }, () => tick.nextTag());

    expect(new Set(tags).size).toBe(TAGS);
    expect(Math.min(...tags)).toBe(0);
    expect(tick.nextTag()).toBe(tags[0]);
  });
});

/** The first of ARGV. */
function tagIn(command: Buffer): number {
  const words = command.toString().split(/\r\n(?:\$\d+\r\n)?/);
  const [, , , keyCount] = words;
  return Number(words[4 + Number(keyCount)]);
}
