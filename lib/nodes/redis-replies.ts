// What the scripts of redis-scripts.ts answer, as votes.
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  ReleaseAnswer,
} from '../core/lock-node.js';
import type { Microseconds, Milliseconds } from '../core/units.js';
import { isReadOnly, lostOutcome, outcomeOfError } from './redis-outcomes.js';
import { timeOf } from './redis-stamp.js';
import { toldIn } from './redis-wake-ups.js';

/** What `certify` says. */
export interface Certified {
  readonly nodeTime: Microseconds;
  /** For how long the node's votes do not count yet. */
  readonly quarantineRemaining: Milliseconds;
  /** False where scripts may not ask INFO, so that only the certificate's own age speaks. */
  readonly isOriginKnown: boolean;
  /**
   * S, R and M in ms, and N, of the client that connected before: `2000:10000:30310:3`. R is 0
   * without fencing, M without quarantine.
   */
  readonly rulesBefore: string;
}

/** Reads what `certify` answered. Null where it makes no sense. */
export function readCertified(reply: unknown): Certified | null {
  if (!Array.isArray(reply)) return null;
  const [nodeTime, quarantineRemaining, origin, rulesBefore] = reply as unknown[];
  if (!isFigure(nodeTime) || !isFigure(quarantineRemaining)) return null;
  if (typeof rulesBefore !== 'string') return null;
  return { nodeTime, quarantineRemaining, isOriginKnown: origin === 1, rulesBefore };
}

/** Reads what `acquire` answered. */
export function readAcquired(reply: unknown): AcquireAnswer {
  if (isFigure(reply)) return { vote: 'granted', nodeTime: timeOf(reply) };
  const [time, vote, figure, nth, ownerId] = parts(reply);
  if (vote === 'taken') return { vote, remaining: figure, nth, ownerId };
  if (vote === 'quarantined') return { vote, remaining: figure };
  if (vote === 'stale' || vote === 'ahead') {
    return { vote: 'stale', isAhead: vote === 'ahead', low: figure, nodeTime: timeOf(time) };
  }
  return oddReply(reply);
}

/** Reads what `extend` answered. */
export function readExtended(reply: unknown): ExtendAnswer {
  if (isFigure(reply)) return { vote: 'granted' };
  const [, vote, figure] = parts(reply);
  if (vote === 'quarantined') return { vote, remaining: figure };
  return vote === 'revoked' ? { vote } : oddReply(reply);
}

/** Reads what `release` answered. */
export function readReleased(reply: unknown): ReleaseAnswer {
  return isFigure(reply) ? { vote: 'done', ...toldIn(reply) } : oddReply(reply);
}

/** Reads what `inspect` answered. */
export function readInspected(reply: unknown): InspectAnswer {
  if (!Array.isArray(reply)) return oddReply(reply);
  const [ownerId, remaining, error] = reply as unknown[];
  if (typeof error !== 'string') return oddReply(reply);
  const refusal = outcomeOfError(error);
  if (isReadOnly(refusal)) return refusal;
  if (ownerId === null) return { vote: 'found', ownerId, remaining: 0, refusal: refusal.message };
  if (typeof ownerId !== 'string' || typeof remaining !== 'number') return oddReply(reply);
  return { vote: 'found', ownerId, remaining, refusal: refusal.message };
}

/** Why a release would be refused, as `inspect` tried it; empty if not, null if untried. */
export function readReleaseRefusal(reply: unknown): string | null {
  const error: unknown = Array.isArray(reply) ? reply[3] : null;
  return typeof error === 'string' ? outcomeOfError(error).message : null;
}

/**
 * Reads once a reply that several operations get: a batch gives the same one to all that it answers
 * alike. Without fencing every plain reply is the same, so `read` must do nothing that is due with
 * each reply.
 */
export function readOnce<Answer>(read: (reply: unknown) => Answer): (reply: unknown) => Answer {
  let last: { readonly reply: unknown; readonly answer: Answer } | null = null;
  return (reply) => {
    if (last === null || last.reply !== reply) last = { reply, answer: read(reply) };
    return last.answer;
  };
}

// A lock's script answers with a bare number where there is nothing else to say.
function isFigure(reply: unknown): reply is number {
  return Number.isSafeInteger(reply) && (reply as number) >= 0;
}

// What is not a figure is not a vote: a NaN among the tokens would make all later tokens NaN. The
// first part has been taken from a stamp, so it is a figure.
function parts(reply: unknown): readonly [number, string, number, number, string] {
  if (!Array.isArray(reply)) return [0, '', 0, 0, ''];
  const [time, vote, figure = 0, nth = 0, holder = ''] = reply as unknown[];
  const isOdd = !Number.isSafeInteger(figure) || !Number.isSafeInteger(nth);
  if (isOdd || typeof holder !== 'string') return [0, '', 0, 0, ''];
  return [time as number, String(vote), figure as number, nth as number, holder];
}

function oddReply(reply: unknown): FailedAnswer {
  return lostOutcome(`An unexpected reply: ${JSON.stringify(reply).slice(0, 80)}`);
}
