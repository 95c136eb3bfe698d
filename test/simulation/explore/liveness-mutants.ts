// Broken versions that grant nothing wrong: they only let nobody have the lock, where somebody
// could. A random universe can not be judged by that, so they stand apart from the others.
import { core, narrow } from '../mutant.js';
import { mutants } from '../mutants.js';
import type { Mutant } from '../mutant.js';

export const livenessMutants: readonly Mutant[] = [
  {
    name: 'a bound that a clock sets is followed',
    rule: '8: max(F_r) + 1, of the low that are not now - S',
    patches: [
      core(
        'fencing',
        'return lows.length - near.length < this.#nodes.length / 2 ? near : lows;',
        'return near.length < 0 ? near : refusals.map(({ low }) => low);',
      ),
    ],
  },
  {
    name: 'a split vote is not heard out',
    rule: '4.5: no verdict while others may answer, unless Q nodes name one owner',
    patches: [
      core('quorum', "  if (ballot.takenByOne < quorum && outstanding > 0) return 'open';\n", ''),
    ],
  },
  {
    name: 'several owners count as one',
    rule: '4.5: no verdict while others may answer, unless Q nodes name one owner',
    patches: [core('quorum', 'ballot.takenByOne < quorum', 'ballot.taken < quorum')],
  },
  {
    name: 'the tie-breaker is believed at once',
    rule: '4.8: who finds the tie-breaker taken asks all nodes the next time',
    patches: [
      core('acquisition', 'decidedBy(result) !== null || isSplit(result)', 'isSplit(result)'),
    ],
  },
  {
    name: 'a decided first attempt keeps its room',
    rule: '10: the next first attempt begins when an earlier one is decided',
    patches: [narrow, core('first-attempts', '          this.#wanted -= size;\n', '')],
  },
  {
    // Either rule is enough by itself where few contend.
    name: 'the same node breaks the tie again after pauses alike',
    rule: '4.8: pauses drawn from what is within nodeTimeout; the next live node breaks the tie',
    patches: [
      core('acquisition', 'patience === 0 ? this.#decider : -1', '-1'),
      core(
        'acquisition',
        'this.waiter.pause(this.#randomOf({ min, max }));',
        'this.waiter.pause(Math.min(this.#randomOf(retryDelay), Math.max(min, max)));',
      ),
    ],
  },
];

/** One of all mutants. */
export function mutantNamed(name: string): Mutant {
  const mutant = [...mutants, ...livenessMutants].find((one) => one.name === name);
  if (mutant === undefined) throw new RangeError(`Expected the name of a mutant, got ${name}`);
  return mutant;
}
