// What the scripts of redis-scripts.ts answer, as votes.
import type {
  AcquireAnswer,
  ExtendAnswer,
  FailedAnswer,
  InspectAnswer,
  ReleaseAnswer,
  World,
} from '../core/lock-node.js';
import type { Microseconds, Milliseconds } from '../core/units.js';
import { isReadOnly, outcomeOfError } from './redis-outcomes.js';

/** What `certify` says. */
export interface Certified {
  readonly nodeTime: Microseconds;
  /** For how long the node's votes do not count yet. */
  readonly quarantineRemaining: Milliseconds;
  /** False where scripts may not ask INFO, so that only the certificate's own age speaks. */
  readonly isOriginKnown: boolean;
  /**
   * S, R and M in ms, and N, of the client before: `2000:10000:30310:3`. R is 0 without fencing, M
   * without quarantine.
   */
  readonly rulesBefore: string;
}

/** Reads what `certify` answered. Null where it makes no sense. */
export function readCertified(reply: unknown): Certified | null {
  if (!Array.isArray(reply)) return null;
  const [nodeTime, quarantineRemaining, origin, rulesBefore] = reply as unknown[];
  if (!isTime(nodeTime) || !isFigure(quarantineRemaining)) return null;
  if (typeof rulesBefore !== 'string') return null;
  return { nodeTime, quarantineRemaining, isOriginKnown: origin === 1, rulesBefore };
}

/** Reads what `acquire` answered in `world`. */
export function readAcquired(reply: unknown, world: World): AcquireAnswer {
  if (isGrant(reply, world)) return { vote: 'granted', nodeTime: reply };
  const [vote, nodeTime, figure, nth] = parts(reply);
  if (vote === 'taken') return { vote, remaining: figure, nth };
  if (vote === 'quarantined') return { vote, remaining: figure };
  if (vote === 'stale' || vote === 'ahead') {
    return { vote: 'stale', isAhead: vote === 'ahead', low: figure, nodeTime };
  }
  return oddReply(reply);
}

/** Reads what `extend` answered in `world`. */
export function readExtended(reply: unknown, world: World): ExtendAnswer {
  if (isGrant(reply, world)) return { vote: 'granted' };
  const [vote, , figure] = parts(reply);
  if (vote === 'quarantined') return { vote, remaining: figure };
  return vote === 'revoked' ? { vote } : oddReply(reply);
}

/** Reads what `release` answered. */
export function readReleased(reply: unknown): ReleaseAnswer {
  if (isFigure(reply) && !isTime(reply)) return { vote: 'done', listeners: reply };
  return oddReply(reply);
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

/**
 * Reads a reply that several get once: a batch gives the same to all that it answers alike. Without
 * fencing every plain reply is the same, so `read` must do nothing that is due with each of them.
 */
export function readOnce<Answer>(read: ReadReply<Answer>): ReadReply<Answer> {
  let last: Read<Answer> | null = null;
  return (reply, world) => {
    if (last === null || last.reply !== reply || last.world !== world) {
      last = { reply, world, answer: read(reply, world) };
    }
    return last.answer;
  };
}

type ReadReply<Answer> = (reply: unknown, world: World) => Answer;

interface Read<Answer> {
  readonly reply: unknown;
  readonly world: World;
  readonly answer: Answer;
}

/**
 * Whether a reply is what the scripts of `world` grant with: the node's time, or 0 where they do
 * not read it. Another number may be the answer to another command: what a release answers is one.
 */
export function isGrant(reply: unknown, { fencing, quarantine }: World): reply is number {
  return fencing || quarantine > 0 ? isTime(reply) : reply === 0;
}

/** What nobody can make sense of: the operation may have taken effect, or none of it. */
export function oddReply(reply: unknown): FailedAnswer {
  const message = `An odd reply: ${JSON.stringify(reply).slice(0, 80)}`;
  return { vote: 'failed', mayHold: true, isMisconfiguration: false, message };
}

// Not before a second after 1970: what else is counted in these replies is far less.
function isTime(reply: unknown): reply is Microseconds {
  return isFigure(reply) && reply >= 1_000_000;
}

function isFigure(reply: unknown): reply is number {
  return Number.isSafeInteger(reply) && (reply as number) >= 0;
}

// What is no figure is no vote: a NaN among the tokens would make all that follow one.
function parts(reply: unknown): readonly [string, number, number, number] {
  if (!Array.isArray(reply)) return ['', 0, 0, 0];
  const [vote, ...figures] = reply as unknown[];
  if (!figures.every((figure) => Number.isSafeInteger(figure))) return ['', 0, 0, 0];
  const [nodeTime = 0, figure = 0, nth = 0] = figures as number[];
  return [String(vote), nodeTime, figure, nth];
}
