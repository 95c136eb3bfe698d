import { core, laterTerms } from './mutant.js';
import type { Mutant } from './mutant.js';

/** Section 10: waiting, wake-up, hand-over, and the first node that breaks ties. */
export const mutantsOfWaiting: readonly Mutant[] = [
  {
    name: 'the tie-breaker decides alone',
    rule: '10: the others are asked by its choice, and a quorum decides',
    patches: [
      core(
        'attempt',
        'else this.#askOthers(this.#tieBreaker);',
        "else if (answer.vote === 'granted') this.#win();\n      else this.#askOthers(this.#tieBreaker);",
      ),
    ],
  },
  {
    name: 'validity from when the others are asked',
    rule: '3, 10: T0 is read before the first byte of an attempt is sent, to the tie-breaker too',
    patches: [
      core(
        'attempt',
        '  #askOthers(tieBreaker: number): void {\n',
        '  #askOthers(tieBreaker: number): void {\n' +
          `    this.#terms = ${laterTerms('this.#terms')};\n`,
      ),
    ],
  },
  {
    name: 'handed on without a release',
    rule: '10: a lock that is not handed over is released first',
    patches: [
      core('holding', "if (succession === 'handedOver') {", "if (succession !== 'others') {"),
    ],
  },
  {
    name: 'handed over and deleted',
    rule: '10: what is handed over is released by its last holder',
    patches: [core('holding', "if (succession === 'handedOver') {", 'if (wasHeld === null) {')],
  },
  {
    name: 'handed over while an answer is owed',
    rule: '10: only what all nodes have answered is handed over',
    patches: [
      core(
        'holding',
        'this.#extender === null && !this.#answers.includes(null)',
        'this.#extender === null',
      ),
    ],
  },
  {
    name: 'handed over while it is extended',
    rule: '10: a lock that was extended is not handed over',
    patches: [core('holding', 'this.#extender === null && !this.#answers', '!this.#answers')],
  },
  {
    name: 'handed over with its token',
    rule: '8, 10: distinct grants have distinct tokens',
    patches: [
      core('holding', 'this.fencingToken + Number(options.world.fencing)', 'this.fencingToken'),
    ],
  },
  {
    name: 'handed over beyond its block',
    rule: '8, 10: the nodes have accepted no more tokens than those of the block',
    patches: [core('holding', ' || token > last', '')],
  },
  {
    name: 'a queue that goes on giving way',
    rule: '10: others go first, for a while',
    patches: [core('waiting', 'if (line.yieldEnd === event) line.yieldEnd = null;', '')],
  },
  {
    name: 'a lost lock that keeps its place',
    rule: '6, 10: a queue does not wait for a lock that is lost',
    patches: [
      core(
        'custody',
        '    lock.abortSignal();\n    waitingRoom.leave(waiter);\n',
        '    lock.abortSignal();\n',
      ),
    ],
  },
  {
    name: 'a call that gives up keeps its place',
    rule: '10: a waiter that dies or aborts does not stall others',
    patches: [core('acquisition', '    this.#context.waitingRoom.leave(this.waiter);\n', '')],
  },
  {
    name: 'rests for the overdue without end',
    rule: '10: others rest for who is overdue for 100 ms at most',
    patches: [core('overdue', 'REST: Milliseconds = 100', 'REST: Milliseconds = 1e9')],
  },
  {
    name: 'no poll beside wake-ups',
    rule: '10: polling is the fallback for wake-ups that are lost',
    patches: [core('acquisition', '{ min: 40, max: 60 - SLOT }', '{ min: 1e9, max: 1e9 }')],
  },
];
