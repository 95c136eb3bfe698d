// Some callers, all of which want the same resource all the time.
import { Redis } from 'ioredis';

import { pause, settlesWithin } from '../measure/pause.js';
import type { Candidate } from '../candidates/candidate.js';
import type { WireCount } from '../measure/wire-counter.js';
import type { Session } from './session.js';

export interface HotKeyTask {
  readonly resource: string;
  readonly callers: number;
  readonly seconds: number;
  /** How long a caller keeps the lock, in ms. */
  readonly section: number;
  /** How long the callers that still wait at the end may take, in ms. */
  readonly grace: number;
  /** A separate server, where every holder counts itself in and out. Null: in this process only. */
  readonly stateUrl: string | null;
}

/** All times in ms. */
export interface HotKeyResult {
  /** Acquisitions within the time, per caller. */
  readonly perCaller: readonly number[];
  /** One per call, also if it failed; if it still hangs, the time until now. */
  readonly waits: readonly number[];
  /** How long the callers really kept the lock, in total: timers are late. */
  readonly inside: number;
  /** All acquisitions, including those after the end. */
  readonly acquisitions: number;
  /** How often a holder was not alone. */
  readonly overlaps: number;
  readonly wire: WireCount;
  readonly errors: number;
  readonly firstError: string | null;
  /** Callers that had not returned when everything else was over. */
  readonly stuck: number;
}

const ERROR_PAUSE = 10;

export async function runHotKey(session: Session, task: HotKeyTask): Promise<HotKeyResult> {
  const { candidate, wire } = session;
  const { callers, grace, resource, seconds, section } = task;
  const presence = await openPresence(task);
  const perCaller = Array.from({ length: callers }, () => 0);
  const waits: number[] = [];
  const waitingSince = new Map<number, number>();
  const tally = { inside: 0, acquisitions: 0, overlaps: 0, errors: 0, stuck: callers };
  let firstError: string | null = null;

  wire.start();
  const endsAt = performance.now() + seconds * 1_000;
  const call = async (caller: number): Promise<void> => {
    while (performance.now() < endsAt) {
      const calledAt = performance.now();
      waitingSince.set(caller, calledAt);
      const endWait = (): void => {
        if (waitingSince.delete(caller)) waits.push(performance.now() - calledAt);
      };
      try {
        await runUnderLock(candidate, resource, async () => {
          const acquiredAt = performance.now();
          endWait();
          tally.acquisitions += 1;
          if (acquiredAt > endsAt) return;
          perCaller[caller] = (perCaller[caller] ?? 0) + 1;
          const entered = presence.enter();
          await pause(section);
          if ((await entered) !== 1) tally.overlaps += 1;
          await presence.leave();
          tally.inside += performance.now() - acquiredAt;
        });
      } catch (error) {
        endWait();
        tally.errors += 1;
        firstError ??= String(error);
        await pause(ERROR_PAUSE);
      }
    }
    tally.stuck -= 1;
  };
  const all = Promise.all(perCaller.map((_, caller) => call(caller)));
  if (!(await settlesWithin(all, seconds * 1_000 + grace))) session.leaveBehind(all);
  for (const calledAt of waitingSince.values()) waits.push(performance.now() - calledAt);
  presence.close();
  return { ...tally, perCaller, waits, wire: wire.stop(), firstError };
}

async function runUnderLock(
  candidate: Candidate,
  resource: string,
  body: () => Promise<void>,
): Promise<void> {
  if (candidate.using !== undefined) {
    await candidate.using(resource, body);
    return;
  }
  const held = await candidate.acquire(resource);
  try {
    await body();
  } finally {
    await held.release();
  }
}

async function openPresence({ resource, stateUrl }: HotKeyTask): Promise<Presence> {
  if (stateUrl === null) return new LocalPresence();
  const client = new Redis(stateUrl, { lazyConnect: true });
  await client.connect();
  return new SharedPresence(client, `inside:${resource}`);
}

/** Whoever enters is told how many are inside with it. */
interface Presence {
  enter(): Promise<number>;
  leave(): Promise<unknown>;
  close(): void;
}

class LocalPresence implements Presence {
  #inside = 0;

  enter(): Promise<number> {
    this.#inside += 1;
    return Promise.resolve(this.#inside);
  }

  leave(): Promise<void> {
    this.#inside -= 1;
    return Promise.resolve();
  }

  close(): void {}
}

class SharedPresence implements Presence {
  readonly #client: Redis;
  readonly #key: string;

  constructor(client: Redis, key: string) {
    this.#client = client;
    this.#key = key;
  }

  enter(): Promise<number> {
    return this.#client.incr(this.#key);
  }

  leave(): Promise<number> {
    return this.#client.decr(this.#key);
  }

  close(): void {
    this.#client.disconnect();
  }
}
