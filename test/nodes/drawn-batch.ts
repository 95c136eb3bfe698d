// Batches drawn at random, of operations that get in each other's way.
import { TOKENS_PER_BLOCK } from '../../lib/core/fencing.js';
import type { World } from '../../lib/core/lock-node.js';
import type { Microseconds } from '../../lib/core/units.js';
import type { BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';
import { requestFor, tokenAt } from '../support/node-harness.js';
import type { Random } from '../simulation/random.js';

/** Makes the drawn operations in a world. */
export type Draw = (world: World) => BatchedOperation[];

interface Drawn {
  readonly name: BatchedOperation['name'];
  readonly resources: string[];
  readonly ownerId: string;
  readonly token: number;
  readonly ttl: number;
  readonly wakes: boolean;
  readonly isListening: boolean;
}

/** Place of the token in a block that stands for all of it. */
export const LAST = TOKENS_PER_BLOCK - 1;

/** Operations on few locks by few owners, many of them alike; the same in each world. */
export function drawBatch(random: Random, fencing: boolean, now: Microseconds): Draw {
  const owners = ['first', 'second', 'third'];
  let kind: BatchedOperation['name'] = 'acquire';
  const draw = (name = kind): Drawn => {
    const several = random.pick([
      ['a', 'b'],
      ['b', 'c'],
      ['a', 'list'],
    ] as const);
    const one = [random.pick(['a', 'b', 'c', 'c', 'list'])];
    const token = tokenAt(now / 1_000, 0) + random.integer(-3, 3) * 800_000;
    return {
      name,
      resources: random.chance(0.15) ? [...several] : one,
      ownerId: random.pick(owners),
      // Below a block, the block, and above it.
      token: fencing ? token + random.pick([0, 1, LAST - 1, LAST, LAST + 1]) : 0,
      ttl: random.pick([60_000, 600_000]),
      wakes: random.chance(0.7),
      isListening: random.chance(0.3),
    };
  };
  const many = (): Drawn[] =>
    Array.from({ length: random.integer(2, 12) }, () => {
      if (random.chance(0.3)) kind = random.pick(['acquire', 'extend', 'release']);
      return draw();
    });
  // Mostly what one call hands on, sometimes what looks like it.
  const handOver = (): Drawn[] => {
    const { resources } = draw();
    const some = (name: Drawn['name']): Drawn[] =>
      Array.from({ length: random.chance(0.7) ? 1 : 2 }, () => {
        const one = { ...draw(name), wakes: random.chance(0.4) };
        return random.chance(0.8) ? { ...one, resources } : one;
      });
    return [...some('release'), ...some('acquire')];
  };
  const drawn = random.chance(0.4) ? handOver() : many();
  // A node sends a release once, until it is answered.
  const isFirst = ({ name, ownerId, resources }: Drawn, index: number): boolean =>
    name !== 'release' ||
    drawn.findIndex(
      (other) =>
        other.name === name &&
        other.ownerId === ownerId &&
        other.resources.some((resource) => resources.includes(resource)),
    ) === index;
  return (world) =>
    drawn.filter(isFirst).map(({ name, wakes, isListening, ...own }): BatchedOperation => {
      const request = requestFor({ world, ...own });
      if (name !== 'release') return { name, request };
      return { name, request: { ...request, wakes }, isListening };
    });
}
