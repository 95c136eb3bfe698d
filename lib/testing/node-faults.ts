// What may go wrong with a node, by name. Under a misspelt name nothing would, and a test would
// show that the application survives it.
import { checkName, checkNames, checkNumber, isObject } from '../core/option-checks.js';
import { DELAY_MAX } from '../core/options.js';
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

/** How long a request and its answer take on the way, in ms, 0 to 2^31 - 1; each 0 if left out. */
export interface Latency {
  readonly request?: Milliseconds | undefined;
  readonly answer?: Milliseconds | undefined;
}

const OPERATIONS: Readonly<Record<NodeOperation, true>> = {
  acquire: true,
  extend: true,
  release: true,
  inspect: true,
};

const FAULTS: Readonly<Record<NodeFault, true>> = {
  down: true,
  misconfigured: true,
  requestLost: true,
  answerLost: true,
  answerOdd: true,
  answerDoubled: true,
  quarantined: true,
};

const DIRECTIONS: Readonly<Record<keyof Latency, true>> = { request: true, answer: true };

/** The operations that `fault` applies to: by default all. @throws TypeError for another name. */
export function checkFault(
  fault: NodeFault,
  operations: readonly NodeOperation[],
): readonly NodeOperation[] {
  checkName('a NodeFault', fault, FAULTS);
  for (const operation of operations) checkOperation(operation);
  return operations.length > 0 ? operations : (Object.keys(OPERATIONS) as NodeOperation[]);
}

/** @throws TypeError for a misspelt one. */
export function checkOperation(operation: NodeOperation): void {
  checkName('a NodeOperation', operation, OPERATIONS);
}

/** What is no object is the delay of the answer. @throws TypeError, RangeError for a bad one. */
export function checkLatency(given: Milliseconds | Latency): Latency {
  if (!isObject(given)) return { answer: checkDelay('answer', given) };
  checkNames('only members of Latency', given, DIRECTIONS);
  for (const [direction, delay] of Object.entries(given)) {
    if (delay !== undefined) checkDelay(direction, delay);
  }
  return given;
}

function checkDelay(direction: string, delay: unknown): Milliseconds {
  return checkNumber(`the delay of the ${direction}`, delay, 0, DELAY_MAX);
}
