// Some callers, each acquiring and releasing in a loop, without contention.
import { pause, settlesWithin } from '../measure/pause.js';
import { distributionOf, type Distribution } from '../measure/statistics.js';
import type { WireCount } from '../measure/wire-counter.js';
import type { Session } from './session.js';

export interface PairsTask {
  readonly callers: number;
  readonly seconds: number;
  /** Begins the names of the resources; one per caller, or one per pair when `isFresh`. */
  readonly prefix: string;
  readonly isFresh: boolean;
  /**
   * Whether each caller waits for something of its own, before it acquires and while it holds, and
   * goes on in a callback by itself. Otherwise those whose replies come together go on together.
   */
  readonly isApart: boolean;
  /** Whether to count commands at the socket, which costs time. */
  readonly isCounted: boolean;
}

/** Times in ms. */
export interface PairsResult {
  /** Including the pairs under way at the end. */
  readonly completed: number;
  /** Until the last of them. */
  readonly duration: number;
  readonly acquire: Distribution;
  readonly release: Distribution;
  /** This process's CPU, of all completed pairs. */
  readonly cpu: number;
  readonly wire: WireCount;
  readonly errors: number;
  readonly firstError: string | null;
  /** Callers that had not returned long after the end. */
  readonly stuck: number;
}

/** For pairs under way at the end: as long again, plus what a busy machine may stand still. */
const GRACE = 2_000;
/** Waited after an error, so that a candidate that fails at once does not spin. */
const ERROR_PAUSE = 10;
/** How long a caller's own waits last, in ms: for a query, say. */
const OWN_WAIT = { min: 1, max: 3 };

export async function runPairs(session: Session, task: PairsTask): Promise<PairsResult> {
  const { candidate, wire } = session;
  const { callers, isApart, isCounted, isFresh, prefix, seconds } = task;
  const acquire: number[] = [];
  const release: number[] = [];
  const tally = { duration: NaN, errors: 0, stuck: callers };
  let firstError: string | null = null;

  if (isCounted) wire.start();
  const cpuBefore = process.cpuUsage();
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1_000;
  const call = async (caller: number): Promise<void> => {
    const own = `${prefix}:${caller}`;
    for (let turn = 0, now = performance.now(); now < endsAt; turn += 1) {
      const calledAt = isApart ? await ownWait() : now;
      try {
        const held = await candidate.acquire(isFresh ? `${own}:${turn}` : own);
        const acquiredAt = performance.now();
        const calledAgainAt = isApart ? await ownWait() : acquiredAt;
        await held.release();
        now = performance.now();
        acquire.push(acquiredAt - calledAt);
        release.push(now - calledAgainAt);
        tally.duration = now - startedAt;
      } catch (error) {
        tally.errors += 1;
        firstError ??= String(error);
        await pause(ERROR_PAUSE);
        now = performance.now();
      }
    }
    tally.stuck -= 1;
  };
  const all = Promise.all(Array.from({ length: callers }, (_, caller) => call(caller)));
  if (!(await settlesWithin(all, seconds * 2_000 + GRACE))) session.leaveBehind(all);

  const { user, system } = process.cpuUsage(cpuBefore);
  return {
    ...tally,
    completed: acquire.length,
    acquire: distributionOf(acquire),
    release: distributionOf(release),
    cpu: (user + system) / 1_000,
    wire: wire.stop(),
    firstError,
  };
}

/** Resolves to when it has ended. */
async function ownWait(): Promise<number> {
  await pause(OWN_WAIT.min + Math.random() * (OWN_WAIT.max - OWN_WAIT.min));
  return performance.now();
}
