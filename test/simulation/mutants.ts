import { mutantsOfAcquiring } from './mutants-of-acquiring.js';
import { mutantsOfHolding } from './mutants-of-holding.js';
import { mutantsOfNodes } from './mutants-of-nodes.js';
import { mutantsOfWaiting } from './mutants-of-waiting.js';
import type { Mutant } from './mutant.js';

/** All mutants, in the order of the protocol's sections. */
export const mutants: readonly Mutant[] = [
  ...mutantsOfAcquiring,
  ...mutantsOfHolding,
  ...mutantsOfNodes,
  ...mutantsOfWaiting,
];
