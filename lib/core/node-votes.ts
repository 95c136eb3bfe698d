import type { NodeVote } from './errors.js';
import type { AcquireAnswer, ExtendAnswer, LockNode } from './lock-node.js';

/** A node's answer as an error shows it. Made only when there is an error. */
export function describeAnswer(
  node: LockNode,
  answer: AcquireAnswer | ExtendAnswer | null,
): NodeVote {
  if (answer === null) return { node: node.name, vote: 'none', message: '' };
  return { node: node.name, vote: answer.vote, message: messageOf(answer) };
}

function messageOf(answer: AcquireAnswer | ExtendAnswer): string {
  switch (answer.vote) {
    case 'granted':
      return '';
    case 'revoked':
      return 'the key was missing or is held by another owner';
    case 'taken':
      return answer.remaining >= 0 ? `for another ${answer.remaining} ms` : '';
    case 'stale':
      return answer.isAhead
        ? 'the fencing token is ahead of its clock'
        : 'it knows a higher fencing token';
    case 'quarantined':
      return `may have forgotten locks that are held; its votes count in ${answer.remaining} ms`;
    case 'failed':
      return answer.message;
  }
}

/**
 * Whether a node that gave this answer certainly has nothing to undo: the acquisition was never
 * sent to it, or failed there without effect. A node that said taken or stale still gets the undo:
 * the tombstone that a release leaves there stops the same acquisition if it arrives again, late.
 */
export function isUntouched(answer: AcquireAnswer | null | undefined): boolean {
  return answer?.vote === 'failed' && !answer.mayHold;
}

/** Whether a node that gave this answer may have stored keys for whoever asked. */
export function mayHoldKeys(answer: AcquireAnswer | ExtendAnswer): boolean {
  if (answer.vote === 'failed') return answer.mayHold;
  return answer.vote !== 'taken' && answer.vote !== 'stale';
}
