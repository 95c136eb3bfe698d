import { setTimeout as sleep } from 'node:timers/promises';

import { ConflictException, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { LockLostError, minutes, RedlockService, seconds, type Lock } from 'nestjs-locked';

import { FencedStore, StaleTokenError } from '../store/fenced-store.js';
import { now } from './clock.js';
import { Feed } from './feed.js';
import { on } from './lock-events.js';
import { isWorking } from './phases.js';
import type { JobEvent, JobState } from './messages.js';

/** The lock's resource, which is also the name in the store. */
export const JOB = 'long-job';

/**
 * Works for longer than its ttl, extended by the watchdog. When its lock is lost it stops, and
 * another holder takes over once it can acquire the lock. Then a write of the first holder arrives,
 * as if it had been on its way all the time, and the store refuses it.
 */
@Injectable()
export class LongJob implements OnModuleDestroy {
  #state = IDLE;
  #stop = new AbortController();
  /** The fencing token of a holder whose last write is still on its way. */
  #late: number | null = null;
  readonly #endListening: () => void;

  constructor(
    private readonly redlock: RedlockService,
    private readonly store: FencedStore,
    private readonly feed: Feed,
  ) {
    this.#endListening = on('extend', ({ resources, remaining }) => {
      if (!resources.includes(JOB)) return;
      const { extensions } = this.#state;
      this.#become({ validity: { remaining, at: now() }, extensions: extensions + 1 });
    });
  }

  get state(): JobState {
    return this.#state;
  }

  /** @throws ConflictException while it is running */
  start(): JobState {
    if (isWorking(this.#state)) throw new ConflictException('The job is running: stop it first.');
    this.#stop = new AbortController();
    this.#late = null;
    this.#become({ ...IDLE, phase: 'waiting' });
    void this.#run(this.#stop.signal);
    return this.#state;
  }

  stop(): JobState {
    this.#stop.abort();
    return this.#state;
  }

  onModuleDestroy(): void {
    this.#endListening();
    this.stop();
  }

  /** Runs one holder after another until the job is done. Not awaited: it does not reject. */
  async #run(stop: AbortSignal): Promise<void> {
    const options = { wait: minutes(10), ttl: TTL, signal: stop };
    while (!stop.aborted && this.#state.step < STEPS) {
      try {
        await this.redlock.using(JOB, options, (lock) => this.#work(lock, stop));
      } catch (error) {
        this.#onError(error, stop);
      }
    }
    const phase = this.#state.step < STEPS ? 'stopped' : 'done';
    this.#become({ phase, validity: null });
    this.#tell(
      phase,
      phase === 'done' ? 'All work is done.' : 'The job has ended before its time.',
    );
  }

  async #work(lock: Lock, stop: AbortSignal): Promise<void> {
    const { fencingToken: token } = lock;
    this.#become({ phase: 'running', token, validity: { remaining: lock.remaining, at: now() } });
    this.#tell(
      'acquired',
      `Holder with fencing token ${token} works from step ${this.#state.step}.`,
    );
    while (this.#state.step < STEPS && !stop.aborted) {
      // Nobody else may be doing this work now: stop as soon as the lock is lost.
      lock.signal.throwIfAborted();
      await this.store.write({ [JOB]: this.#state.step + 1 }, token);
      this.#become({ step: this.#state.step + 1 });
      await this.#deliverLateWrite();
      await sleep(STEP);
    }
  }

  #onError(error: unknown, stop: AbortSignal): void {
    if (stop.aborted) return;
    const { token } = this.#state;
    this.#become({ phase: 'taking over', validity: null });
    if (error instanceof LockLostError) {
      this.#late = token;
      const text = `The signal aborted (${error.reason}): holder ${token ?? ''} has stopped.`;
      this.#tell('aborted', text);
    } else {
      // For example, the application shuts down: nobody takes over.
      this.#tell('aborted', String(error));
      this.stop();
    }
  }

  // The next holder has written by now, so the store knows a newer token.
  async #deliverLateWrite(): Promise<void> {
    const late = this.#late;
    if (late === null) return;
    this.#late = null;
    try {
      await this.store.write({ [JOB]: 0 }, late);
      this.#tell('written', `A late write with token ${late} was accepted.`);
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
      this.#tell(
        'refused',
        `The store refused a late write of the holder before: ${error.message}`,
      );
    }
  }

  #tell(kind: JobEvent['kind'], text: string): void {
    const story = [...this.#state.story, { kind, at: Date.now(), text }];
    this.#become({ story: story.slice(-STORY_MAX) });
  }

  #become(change: Partial<JobState>): void {
    this.#state = { ...this.#state, ...change };
    this.feed.update({ job: this.#state });
  }
}

const TTL = seconds(3);
const STEP = 200;
// One minute.
const STEPS = 300;
const STORY_MAX = 20;

const IDLE: JobState = {
  phase: 'idle',
  step: 0,
  steps: STEPS,
  validity: null,
  ttl: TTL,
  token: null,
  extensions: 0,
  story: [],
};
