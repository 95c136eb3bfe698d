// Asks V8 to collect garbage: for tests of what is kept alive.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { eventually } from './eventually.js';

setFlagsFromString('--expose-gc');

/** Collects all garbage, or only what is young and has not survived such a collection before. */
export const collectGarbage = runInNewContext('gc') as (what?: { type: 'minor' }) => void;

/** Resolves when nothing keeps what `reference` refers to in memory any more. */
export function untilCollected(reference: WeakRef<object>): Promise<void> {
  return eventually(() => {
    collectGarbage();
    return reference.deref() === undefined;
  });
}
