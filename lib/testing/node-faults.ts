// What may go wrong with a node, by name. Under a misspelt name nothing would, and a test would
// show that the application survives it.
import type { Milliseconds } from '../core/units.js';

/** What a node is asked to do. */
export type NodeOperation = 'acquire' | 'extend' | 'release' | 'inspect';

/**
 * How an operation goes wrong.
 * - `down`: nothing is sent, and the node says so at once; releases wait until it is healed.
 *   `misconfigured`: the server refuses the operation, which waiting does not cure.
 * - `requestLost`: it never arrives, and no answer comes. `answerLost`: it takes effect, and no
 *   answer comes. `answerOdd`: it takes effect, but the answer leaves that open.
 * - `answerDoubled`: the answer comes twice. `quarantined`: what is granted does not count.
 */
export type NodeFault =
  | 'down'
  | 'misconfigured'
  | 'requestLost'
  | 'answerLost'
  | 'answerOdd'
  | 'answerDoubled'
  | 'quarantined';

/** How long a request and its answer take on the way, in ms; each 0 if left out. */
export interface Latency {
  readonly request?: Milliseconds;
  readonly answer?: Milliseconds;
}

const allOperations: readonly NodeOperation[] = ['acquire', 'extend', 'release', 'inspect'];

const allFaults: readonly NodeFault[] = [
  'down',
  'misconfigured',
  'requestLost',
  'answerLost',
  'answerOdd',
  'answerDoubled',
  'quarantined',
];

/** The operations that `fault` applies to: by default all. @throws TypeError for another name. */
export function checkFault(
  fault: NodeFault,
  operations: readonly NodeOperation[],
): readonly NodeOperation[] {
  checkWords('NodeFault', [fault], allFaults);
  checkWords('NodeOperation', operations, allOperations);
  return operations.length > 0 ? operations : allOperations;
}

/** @throws TypeError for a word that is not known */
export function checkWords(type: string, words: readonly string[], known: readonly string[]): void {
  for (const word of words) {
    if (!known.includes(word)) throw new TypeError(`Expected only names of ${type}, got "${word}"`);
  }
}
