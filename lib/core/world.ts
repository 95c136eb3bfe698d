// What all clients of a node have to agree on, derived from the options.
import { checkBoolean, wrongType } from './option-checks.js';
import type { World } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** The options that make up an application's world, unchecked. */
interface WorldOptions {
  readonly quarantine?: unknown;
  readonly keyPrefix?: unknown;
  readonly fencing?: unknown;
}

/**
 * The world of clients with these options; `ttlMax` and `driftFactor` were checked before.
 * @throws TypeError naming the option, its rule and the value.
 */
export function resolveWorld(
  options: WorldOptions,
  ttlMax: Milliseconds,
  driftFactor: number,
  nodeCount: number,
): World {
  const { quarantine = 'auto', keyPrefix = '', fencing = true } = options;
  if (quarantine !== 'auto' && typeof quarantine !== 'boolean') {
    throw wrongType('quarantine', "'auto', true or false", quarantine);
  }
  // Otherwise the key of a lock might be that of the certificate of a world without a prefix. Half
  // of a surrogate pair arrives as another character: no release would be heard.
  if (typeof keyPrefix !== 'string' || /^redlock(:|$)|\p{Cs}/u.test(keyPrefix)) {
    const rule =
      'a well-formed string that lets no key begin with "redlock:", which the protocol keeps ' +
      'for itself';
    throw wrongType('keyPrefix', rule, keyPrefix);
  }
  const isQuarantined = quarantine === 'auto' ? nodeCount >= 3 : quarantine;
  // S, R and M of PROTOCOL.md, in whole milliseconds: scripts fail on fractional PX values.
  const clockSkewMax = Math.floor(Math.min(2_000, ttlMax / 3));
  return Object.freeze({
    keyPrefix,
    fencing: checkBoolean('fencing', fencing),
    clockSkewMax,
    fenceRetention: 5 * clockSkewMax,
    quarantine: isQuarantined ? Math.ceil(ttlMax * (1 + driftFactor)) + 10 : 0,
  });
}
