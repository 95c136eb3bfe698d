import { core, laterTerms } from './mutant.js';
import type { Mutant, Patch } from './mutant.js';

/** Sections 2 to 4, and what an outcome means. */
export const mutantsOfAcquiring: readonly Mutant[] = [
  {
    name: 'quorum off by one',
    rule: 'notation: Q = floor(N/2) + 1',
    patches: [
      core('quorum', 'Math.floor(nodeCount / 2) + 1', 'Math.max(1, Math.floor(nodeCount / 2))'),
    ],
  },
  {
    name: 'wall clock for validity',
    rule: '2: validity by the monotonic clock alone',
    patches: [
      core(
        'redlock',
        'const environment = ports.environment ?? systemEnvironment;',
        'const real = ports.environment ?? systemEnvironment;\n' +
          '    const environment = { now: () => real.wallClock(), wallClock: () => real.wallClock(), ' +
          'startTimer: real.startTimer.bind(real), stopTimer: real.stopTimer.bind(real), ' +
          'random: real.random.bind(real), randomId: real.randomId.bind(real) };',
      ),
    ],
  },
  {
    name: 'no suspend guard',
    rule: '2: suspend guard',
    patches: [
      core('node-leases', 'return environment.wallClock() - now > clockGapMax;', 'return false;'),
    ],
  },
  {
    name: 'validity from the answer of an acquisition',
    rule: '3: T0 is read before the first byte is sent',
    patches: [
      core(
        'attempt',
        'new Holding(this.#ensemble, this.#request, this.#terms, this.#answers)',
        `new Holding(this.#ensemble, this.#request, ${laterTerms('this.#terms')}, this.#answers)`,
      ),
    ],
  },
  {
    name: 'no drift',
    rule: '3: T(1-d)',
    patches: [core('quorum', 'ttl * (1 - driftFactor) - GUARD', 'ttl - GUARD')],
  },
  {
    name: 'no guard',
    rule: '3: g = 2 ms',
    patches: [core('quorum', 'ttl * (1 - driftFactor) - GUARD', 'ttl * (1 - driftFactor)')],
  },
  {
    name: 'the best lease is the validity',
    rule: '3: the Q-th largest lease',
    patches: [core('quorum', 'nthLargest(leases, quorum)', 'nthLargest(leases, 1)')],
  },
  {
    name: 'no validity check',
    rule: '4.5: now < validUntil - minValidity',
    patches: [core('attempt', 'else if (this.#isInTime(now)) this.#win();', 'else this.#win();\n')],
  },
  {
    name: 'no validity left to work with',
    rule: '4.5: minValidity = T/2',
    patches: [core('attempt', 'now < until - ttl / 2', 'now < until')],
  },
  {
    name: 'attempts without an end',
    rule: '4.3: ends at the latest after nodeTimeout',
    patches: [core('attempt', '() => this.#onTimeout()', '() => undefined')],
  },
  {
    name: 'won by the faster nodes alone',
    rule: '4.5: what slower nodes leave open has failed',
    patches: [
      core(
        'attempt',
        "known === 'open' && isLagOver ? 'taken'",
        "known === 'open' && isLagOver ? 'granted'",
      ),
    ],
  },
  {
    name: 'late grants counted',
    rule: '4.7: a failed attempt is closed for ever',
    patches: [
      core(
        'attempt',
        'this.#ballot.failed += this.#answers.filter(isSilent).length;',
        'if (this.#answers.filter(isSilent).length === 0) return;',
      ),
    ],
  },
  {
    name: 'one ownerId for all attempts',
    rule: '4.3: a fresh ownerId',
    patches: [
      core('redlock', 'ownerPrefix + (owners += 1).toString(36)', 'ownerPrefix + String(owners)'),
    ],
  },
  {
    name: 'no undo',
    rule: '4.7: release goes to all nodes',
    patches: [
      core('attempt', 'if (wasAsked && !isUntouched(answers[index])) this.#undoAt(index);', ''),
    ],
  },
  {
    name: 'undo only where it was acknowledged',
    rule: '4.7: release goes to all nodes, and again on a late grant',
    patches: [
      core(
        'attempt',
        'if (wasAsked && !isUntouched(answers[index])) this.#undoAt(index);',
        "if (answers[index]?.vote === 'granted') this.#undoAt(index);",
      ),
      core('attempt', 'if (mayHoldKeys(answer)) this.#undoAt(index);', ''),
    ],
  },
  {
    name: 'unknown counted as granted',
    rule: '4.5, 11: only granted counts',
    patches: unknownCounts("answer.vote === 'failed' && answer.mayHold"),
  },
  {
    name: 'error counted as granted',
    rule: '4.5, 11: only granted counts',
    patches: unknownCounts("answer.vote === 'failed'"),
  },
  {
    name: 'quarantined votes counted',
    rule: '9: a quarantined node does not vote',
    patches: unknownCounts("answer.vote === 'quarantined'"),
  },
  {
    name: 'double-counted answer',
    rule: '4.4: an answer counts once',
    patches: [core('attempt', 'if (this.#answers[index] !== null) return;', '')],
  },
];

function unknownCounts(condition: string): readonly Patch[] {
  return [
    core(
      'attempt',
      '    this[answer.vote] += 1;',
      `    if (${condition}) {\n      this.granted += 1;\n      return;\n    }\n    this[answer.vote] += 1;`,
    ),
    core(
      'holding',
      "answer?.vote === 'granted' ? terms",
      `answer && (answer.vote === 'granted' || (${condition})) ? terms`,
    ),
  ];
}
