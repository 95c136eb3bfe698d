// One round of release. Its outcome is no error. PROTOCOL.md section 7.
import { nodeTimeoutOf } from './options.js';
import type { Ensemble } from './ensemble.js';
import type { LockNode, ReleaseAnswer, ReleaseRequest } from './lock-node.js';

/**
 * Asks `nodes` to delete the keys. After the answers of a quorum, or of all of `nodes`, or the node
 * timeout, `onDone` is called once, with how many other processes were told, as far as is known.
 */
export function askForRelease(
  { environment, quorum, options }: Ensemble,
  nodes: readonly LockNode[],
  request: ReleaseRequest,
  onDone: (listeners: number) => void,
): void {
  let done = 0;
  let answered = 0;
  let listeners = 0;
  let isDone = false;
  const finish = (): void => {
    if (isDone) return;
    isDone = true;
    environment.stopTimer(timer);
    onDone(listeners);
  };
  const onAnswer = (answer: ReleaseAnswer): void => {
    answered += 1;
    if (answer.vote === 'done') {
      done += 1;
      listeners = Math.max(listeners, answer.listeners);
    }
    if (done >= quorum || answered >= nodes.length) finish();
  };
  const timer = environment.startTimer(nodeTimeoutOf(options, request.ttl), finish, true);
  for (const node of nodes) node.release(request, onAnswer);
}
