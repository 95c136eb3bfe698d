// Resources that many processes want all the time: what their turns cost, and who gets them.
import { describe, expect, it } from '@jest/globals';

import { asked, farProcess, setScene } from './scene.js';
import type { Redlock } from '../../lib/core/redlock.js';
import type { Milliseconds } from '../../lib/core/units.js';

const SECTION: Milliseconds = 10;

/** A process: how many calls want the resource there, and how far from the nodes it is. */
interface Member {
  readonly callers: number;
  readonly nearest: Milliseconds;
  readonly farthest: Milliseconds;
  /** How far from the last node, where that is farther than the others. */
  readonly last?: Milliseconds;
  /** What its calls want, where they do not choose anew each time. */
  readonly wants?: readonly string[];
}

type Random = () => number;

const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

/** What became of a crowd in some seconds of virtual time. */
async function crowd(
  members: readonly Member[],
  holdFor: (random: Random) => Milliseconds,
  choose: (random: Random) => readonly string[] = () => ['r'],
) {
  const scene = setScene();
  const { environment } = scene;
  const start = ({ nearest, farthest, last }: Member): Redlock => {
    const ways = scene.nodes.map(() => nearest + (farthest - nearest) * environment.random());
    if (last !== undefined) ways[ways.length - 1] = last;
    return farProcess(scene, (index) => ways[index] ?? nearest).redlock;
  };
  const random = (): number => environment.random();
  const counts = members.map(() => 0);
  let longestWait: Milliseconds = 0;
  let hasEnded = false;
  const call = async (redlock: Redlock, index: number): Promise<void> => {
    while (!hasEnded) {
      const calledAt = environment.now();
      const wanted = members[index]?.wants ?? choose(random);
      await redlock.using(wanted, { ttl: 10_000, wait: 60_000 }, async () => {
        counts[index] = (counts[index] ?? 0) + 1;
        longestWait = Math.max(longestWait, environment.now() - calledAt);
        await new Promise<void>((resolve) => environment.schedule(holdFor(random), resolve));
      });
    }
  };
  const calls = members.flatMap((member, index) => {
    const redlock = start(member);
    return Array.from({ length: member.callers }, () => call(redlock, index));
  });
  // Until each has drawn its turn.
  await environment.advance(1_000);
  counts.fill(0);
  const before = asked(scene, 'acquire') + asked(scene, 'release');
  await environment.advance(4_000);
  const requests = asked(scene, 'acquire') + asked(scene, 'release') - before;
  const counted = [...counts];
  hasEnded = true;
  await scene.until(Promise.all(calls));
  return { counts: counted, requests, longestWait };
}

describe('processes that want one resource all the time', () => {
  it.each([
    { processes: 64, nearest: 0.25, farthest: 0.25, most: 40 },
    { processes: 32, nearest: 1, farthest: 1, most: 40 },
    { processes: 32, nearest: 0.3, farthest: 1, most: 60 },
    { processes: 32, nearest: 1, farthest: 5, most: 120 },
  ])(
    'take turns: $processes processes, $nearest to $farthest ms from the nodes',
    async ({ processes, nearest, farthest, most }) => {
      const member = { callers: 1, nearest, farthest };
      const members = Array.from({ length: processes }, () => member);
      const { counts, requests } = await crowd(members, () => SECTION);
      const turns = sumOf(counts);

      // A release, a wake-up and the answer to an attempt are on their ways, one after the other.
      expect(turns / 4).toBeGreaterThan(0.75 * (1_000 / (SECTION + 4 * farthest)));
      expect(requests / turns).toBeLessThan(most);
      expect(Math.min(...counts)).toBeGreaterThan(0);
    },
  );

  it('keep the pace of two nodes that are near where the third is 200 ms away', async () => {
    const member = { callers: 1, nearest: 0.2, farthest: 0.22, last: 200 };
    const members = Array.from({ length: 6 }, () => member);

    const { counts } = await crowd(members, () => 6 * SECTION);
    const turns = sumOf(counts);

    expect(turns / 4).toBeGreaterThan(0.8 * (1_000 / (6 * SECTION + 1)));
  });

  it.each([
    { callers: 1, way: 3 },
    { callers: 8, way: 10 },
    { callers: 8, way: 20 },
  ])('let in one that is $way ms away from the nodes they are near', async ({ callers, way }) => {
    const near = { callers, nearest: 0.25, farthest: 0.25 };
    const far = { callers: 2, nearest: way, farthest: way };

    const { counts } = await crowd([near, near, far], (random) => SECTION * (0.5 + random()));

    expect(Math.min(...counts)).toBeGreaterThan(5);
  });

  it.each([
    { callers: 1, way: 3, least: 0 },
    { callers: 8, way: 1, least: 0.2 },
  ])(
    'let in one that is $way ms away, $callers calls of each wanting another resource besides',
    async ({ callers, way, least }) => {
      const near = { callers, nearest: 0.25, farthest: 0.25 };
      const far = { callers, nearest: way, farthest: way };
      const choose = (random: Random): readonly string[] => ['r', `order:${random()}`];

      const { counts } = await crowd([near, near, far], () => 2 * SECTION, choose);
      expect(counts[2]).toBeGreaterThan(least * sumOf(counts));
    },
  );
});

describe('processes that come too late by themselves', () => {
  const member = (callers: number, way: Milliseconds, ...wants: string[]): Member => {
    return { callers, nearest: way, farthest: way, wants };
  };
  const [a, b] = [member(4, 0.25, 'a'), member(4, 0.25, 'b')];

  it.each([
    { who: '20 ms away beside two that are near', members: [a, a, member(4, 20, 'a')] },
    {
      who: '3 ms away beside two single calls',
      members: [0.25, 0.25, 3].map((way) => member(1, way, 'a')),
    },
    {
      who: '10 ms away beside one of eight callers',
      members: [member(8, 0.25, 'a'), member(8, 10, 'a')],
    },
    {
      who: 'wanting what two and two others keep busy',
      members: [a, a, b, b, member(1, 0.25, 'a', 'b')],
    },
  ])('have their turns within 700 ms: $who', async ({ members }) => {
    const { longestWait } = await crowd(members, (random) => 4 + 2 * random());

    expect(longestWait).toBeLessThan(700);
  });
});

describe('a process that seldom comes in time', () => {
  it('keeps for its calls what it gets, and so has more than a sixth of all turns', async () => {
    const near = { callers: 4, nearest: 0.25, farthest: 0.25 };
    const far = { callers: 4, nearest: 5, farthest: 5 };

    const { counts } = await crowd([near, near, far], (random) => 4 + 2 * random());

    expect(counts[2]).toBeGreaterThan(sumOf(counts) / 6);
  });
});

describe('processes that want many of the same resources all the time', () => {
  /** Eight of a hundred. */
  const choose = (random: Random): readonly string[] => {
    const chosen = new Set<string>();
    while (chosen.size < 8) chosen.add(`sku:${Math.floor(100 * random())}`);
    return [...chosen];
  };

  it('make about as many turns as the same callers in one process', async () => {
    const member = (callers: number): Member => ({ callers, nearest: 0.25, farthest: 0.25 });
    const turns = async (members: readonly Member[]): Promise<number> => {
      const { counts } = await crowd(members, () => SECTION, choose);
      return sumOf(counts);
    };

    expect(await turns([member(20), member(20)])).toBeGreaterThan(
      0.75 * (await turns([member(40)])),
    );
  });
});
