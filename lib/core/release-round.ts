// One round of release. Its outcome is no error. PROTOCOL.md section 7.
import { nodeTimeoutOf } from './options.js';
import type { Ensemble } from './ensemble.js';
import type { LockNode, ReleaseAnswer, ReleaseRequest } from './lock-node.js';

/**
 * Asks `nodes` to delete the keys. Resolves after the answers of a quorum, or of all of `nodes`, or
 * the node timeout, to how many other processes were told, as far as is known by then.
 */
export function askForRelease(
  { environment, quorum, options }: Ensemble,
  nodes: readonly LockNode[],
  request: ReleaseRequest,
): Promise<number> {
  return new Promise((resolve) => {
    let done = 0;
    let answered = 0;
    let listeners = 0;
    const finish = (): void => {
      environment.stopTimer(timer);
      resolve(listeners);
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
  });
}
