import { core, laterTerms, script } from './mutant.js';
import type { Mutant, Patch } from './mutant.js';

const GRANT = 'this.#leases.grant(node, terms);';
const GRANT_EXTENSION = `if (answer.vote === 'granted') ${GRANT}\n    if (answer.vote === 'revoked')`;
const REVOKE = 'this.#revoke(node);';

/** How an extension's answer is counted, in place of "granted counts". */
const countExtension = (count: string): Patch =>
  core('holding', GRANT_EXTENSION, `${count}\n    if (answer.vote === 'revoked')`);

/** Sections 5 to 7: extension, loss, release. */
export const mutantsOfHolding: readonly Mutant[] = [
  {
    name: 'validity from the answer of an extension',
    rule: '3: T0 is read before the first byte is sent',
    patches: [
      countExtension(
        `if (answer.vote === 'granted') ${GRANT.replace('terms', laterTerms('terms'))}`,
      ),
    ],
  },
  {
    name: 'late grant of an acquisition counted from when it came',
    rule: '3: T0 is read before the first byte is sent',
    patches: [
      core(
        'holding',
        "answer.vote === 'granted' && this.isHeld()) this.#leases.grant(node, this.#terms);",
        "answer.vote === 'granted' && this.isHeld()) " +
          `this.#leases.grant(node, ${laterTerms('this.#terms')});`,
      ),
    ],
  },
  {
    name: 'extension assumes success',
    rule: '5.3: unknown and error leave the lease unchanged',
    patches: [countExtension(`if (answer.vote !== 'revoked') ${GRANT}`)],
  },
  {
    name: 'extension counts lost answers',
    rule: '5.3: unknown leaves the lease unchanged',
    patches: [
      countExtension(
        `if (answer.vote === 'granted' || (answer.vote === 'failed' && answer.mayHold)) ${GRANT}`,
      ),
    ],
  },
  {
    name: 'one extended node is enough',
    rule: '5.3: a lease per node',
    patches: [
      countExtension(
        "if (answer.vote === 'granted') this.#ensemble.nodes.forEach((_, other) => " +
          'this.#leases.grant(other, terms));',
      ),
    ],
  },
  {
    name: 'extension revives a lost lock',
    rule: '5.3: first check now < validUntil with the old value',
    patches: [
      core('holding', `if (!this.isHeld()) return;\n    ${GRANT_EXTENSION}`, GRANT_EXTENSION),
    ],
  },
  {
    name: 'late grant revives a lost lock',
    rule: '5.3, 6: nothing leads back',
    patches: [
      core(
        'holding',
        'isHeld(): boolean {\n    if (this.#end !== null) return false;',
        "isHeld(): boolean {\n    if (this.#end === 'released') return false;",
      ),
      core('holding', `if (!this.isHeld()) return;\n    ${GRANT_EXTENSION}`, GRANT_EXTENSION),
    ],
  },
  {
    name: 'no revocation',
    rule: '5.3: missing, re-created or another owner: revoked',
    patches: [core('holding', REVOKE, 'return;')],
  },
  {
    name: 're-created key earns a lease at once',
    rule: '5.3: only a later round counts it',
    patches: [
      countExtension(`if (answer.vote === 'granted' || answer.vote === 'revoked') ${GRANT}`),
      core('holding', REVOKE, 'return;'),
    ],
  },
  {
    name: 'extension without compare',
    rule: '5.5: the script compares the owner',
    patches: [script('if (holder !== null && holder !== ownerId) return false;', '')],
  },
  {
    name: 'extension shortens',
    rule: '5.5: never shortens',
    patches: [script('} else if (this.#pttl(key, moment) < ttl) {', '} else {')],
  },
  {
    name: 'maxHold ignored',
    rule: '5.6: maxHold ends extension',
    patches: [
      core(
        'holding',
        'return this.#care !== null && at - this.acquiredAt >= this.#care.maxHold;',
        'return at < this.acquiredAt;',
      ),
    ],
  },
  {
    name: 'loss told late',
    rule: '6: the signal aborts at the end of the validity',
    patches: [
      core(
        'holding',
        'const onExpiry = (): void => {',
        'const onExpiry = (): void => {\n      return;',
      ),
    ],
  },
  {
    name: 'shortened validity told late',
    rule: '6: the signal aborts at the end of the validity',
    patches: [core('holding', 'next call.\n    else this.#awaitExpiry();', 'next call.')],
  },
  {
    name: 'release under a body that still runs',
    rule: '6: keys are not deleted while the body may run',
    patches: [
      core(
        'holding',
        'this.#care?.onLost(reason);',
        'this.#care?.onLost(reason);\n    void this.release();',
      ),
    ],
  },
  {
    name: 'a released lock claims to be held',
    rule: '7: the state leaves held before the first byte',
    patches: [core('holding', "if (wasHeld) this.#end = 'released';", '')],
  },
  {
    name: 'watchdog after release',
    rule: '7: release stops the watchdog',
    patches: [
      core('holding', 'watchdog.unwatch(this);', ''),
      core('holding', '      this.#care = null;\n', ''),
      core(
        'holding',
        'return this.isHeld() && !this.isPastMaxHold();',
        'return !this.isPastMaxHold();',
      ),
      core(
        'holding',
        '  #watch(dueAt: Milliseconds): void {\n    if (this.#end !== null) return;',
        '  #watch(dueAt: Milliseconds): void {',
      ),
    ],
  },
];
