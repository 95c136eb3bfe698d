// Turns a failed attempt into the error that its caller gets: what was wanted, what each node
// said, and what to do about it.
import {
  describeResources,
  describeVotes,
  LockExpiredError,
  LockTakenError,
  NoQuorumError,
} from './errors.js';
import { describeAnswer } from './node-votes.js';
import type { FailedAttempt } from './attempt.js';
import type { Ensemble } from './ensemble.js';
import type { NodeVote, RedlockError } from './errors.js';
import type { AcquireAnswer } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** An attempt that failed, and what was spent on it and those before it. */
export interface Refusal extends FailedAttempt {
  readonly resources: readonly string[];
  readonly attempts: number;
  readonly waited: Milliseconds;
  /** Each node's clock minus the own one, in ms, as last heard. */
  readonly clockOffsets: readonly (Milliseconds | null)[];
}

/** The error for a call whose own last attempt failed, or that of the calls before it. */
export function refusalError(ensemble: Ensemble, refusal: Refusal): RedlockError {
  const { resources, verdict, answers, tieBreaker } = refusal;
  const votes = ensemble.nodes.map((node, index): NodeVote => {
    const wasAsked = tieBreaker === null || tieBreaker === index;
    if (!wasAsked) return { node: node.name, vote: 'none', message: 'was not asked' };
    return describeAnswer(node, answers[index] ?? null);
  });
  const what = `Could not lock ${describeResources(resources)} ${effort(refusal)}`;
  const said = describeVotes(votes);
  const delayOf = verdict === 'taken' ? freeAfter : votesAfter;
  const retryAfter = quorumAfter(answers.map(delayOf), ensemble.quorum);
  switch (verdict) {
    case 'taken': {
      const until = retryAfter === null ? '' : ` for another ${retryAfter} ms, unless extended`;
      const taken = takenOf(refusal);
      const isSaid = resources.length > 1 && taken.length > 0;
      const which = isSaid ? `${describeResources(taken)} ` : '';
      const message = `${what}: ${which}held by another owner${until}. Nodes: ${said}`;
      return new LockTakenError(message, { resources, votes, retryAfter, taken });
    }
    case 'expired':
      return new LockExpiredError(
        `${what}: a quorum granted it too late to be of use. Nodes: ${said}`,
        { resources, votes },
      );
    default:
      return new NoQuorumError(`${what}: ${noQuorumReason(ensemble, refusal)}. Nodes: ${said}`, {
        resources,
        votes,
        retryAfter,
      });
  }
}

/**
 * The error for a call that found others of its process before it and did not want to wait;
 * `queued` are those of its resources for which others were before it.
 */
export function queuedError(
  resources: readonly string[],
  queued: readonly string[],
  waited: Milliseconds,
): LockTakenError {
  const message =
    `Could not lock ${describeResources(resources)} within ${Math.round(waited)} ms: other ` +
    `calls of this process hold or wait for ${describeResources(queued)}`;
  return new LockTakenError(message, { resources, retryAfter: null, taken: queued });
}

function effort({ attempts, waited }: Refusal): string {
  if (attempts === 0) return `within ${Math.round(waited)} ms, behind other calls of this process`;
  const tries = attempts === 1 ? '1 attempt' : `${attempts} attempts`;
  return `in ${tries} and ${Math.round(waited)} ms`;
}

function noQuorumReason(ensemble: Ensemble, refusal: Refusal): string {
  const { nodes, quorum, options } = ensemble;
  if (refusal.verdict === 'misconfigured') {
    return `too many nodes are misconfigured for a quorum of ${quorum} of ${nodes.length}`;
  }
  // If no token was in the way, the clocks were not either, whatever the offsets say: an offset is
  // as old as the node's last answer, and too small by as much as that answer was late.
  if (refusal.verdict !== 'stale') {
    return `fewer than ${quorum} of ${nodes.length} nodes could vote`;
  }
  const { clockSkewMax } = options.world;
  const known = refusal.clockOffsets.filter((offset) => offset !== null);
  if (Math.max(...known) - Math.min(...known) > clockSkewMax) {
    const offsets = refusal.clockOffsets.map(
      (offset, index) => `${nodes[index]?.name} ${offset === null ? '?' : Math.round(offset)} ms`,
    );
    return (
      `the clocks of the nodes differ by more than ${clockSkewMax} ms, so no fencing token suits ` +
      `a quorum; synchronise them (off this machine's clock by: ${offsets.join(', ')})`
    );
  }
  return 'others proposed higher fencing tokens each time';
}

function takenOf({ resources, answers }: Refusal): readonly string[] {
  const places = answers.map((answer) => (answer?.vote === 'taken' ? answer.nth : -1));
  return resources.filter((_, place) => places.includes(place));
}

// After how long a node may be free: one that has not answered is taken for free now.
function freeAfter(answer: AcquireAnswer | null): Milliseconds {
  if (answer === null) return 0;
  if (answer.vote !== 'taken') return votesAfter(answer);
  return answer.remaining < 0 ? Infinity : answer.remaining;
}

// After how long a node may vote. One that is taken does so already.
function votesAfter(answer: AcquireAnswer | null): Milliseconds {
  if (answer === null || answer.vote === 'failed') return Infinity;
  return answer.vote === 'quarantined' ? answer.remaining : 0;
}

function quorumAfter(delays: Milliseconds[], quorum: number): Milliseconds | null {
  const delay = delays.sort((a, b) => a - b)[quorum - 1] ?? Infinity;
  return Number.isFinite(delay) && delay > 0 ? Math.ceil(delay) : null;
}
