// One round of release. No outcome of it is an error. PROTOCOL.md section 7.
import { mostOf, NOBODY } from './lock-node.js';
import { isUntouched } from './node-votes.js';
import { nodeTimeoutOf } from './options.js';
import type { Ensemble } from './ensemble.js';
import type { AcquireAnswer, ReleaseAnswer, ReleaseRequest, Told } from './lock-node.js';

/** Is told once which other processes know of the release. */
export type OnReleased = (told: Told) => void;

/**
 * Asks all nodes to delete the keys, except those that certainly have nothing to undo: a dead node
 * must not cost memory for each lock. Calls `onDone` once, when a quorum has done so, all that were
 * asked have answered or the node timeout is over, with who was told, as far as is known.
 */
export function askForRelease(
  { nodes, quorum, options, roundTimers }: Ensemble,
  answers: readonly (AcquireAnswer | null)[],
  request: ReleaseRequest,
  onDone: OnReleased,
): void {
  const touched = nodes.filter((_, node) => !isUntouched(answers[node]));
  let done = 0;
  let answered = 0;
  let told = NOBODY;
  let isDone = false;
  const finish = (): void => {
    if (isDone) return;
    isDone = true;
    timer.stop();
    onDone(told);
  };
  const onAnswer = (answer: ReleaseAnswer): void => {
    answered += 1;
    if (answer.vote === 'done') {
      done += 1;
      told = mostOf(told, answer);
    }
    if (done >= quorum || answered >= touched.length) finish();
  };
  const timer = roundTimers.start(nodeTimeoutOf(options, request.ttl), finish);
  for (const node of touched) node.release(request, onAnswer);
}

/**
 * Asks one node to delete the keys. Nobody waits for it: what it could not delete is deleted by the
 * node's pending list, by another undo when a late answer comes, or by the ttl.
 */
export function undoAt({ nodes }: Ensemble, node: number, request: ReleaseRequest): void {
  nodes[node]?.release(request, ignoreAnswer);
}

function ignoreAnswer(): void {}
