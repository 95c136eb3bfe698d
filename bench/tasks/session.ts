// What happens inside a candidate's process: the candidate, and the tasks that drive it.
import { catalogue, type CandidateName } from '../candidates/catalogue.js';
import type { Candidate, CandidateSettings, Held, Kept } from '../candidates/candidate.js';
import { settlesWithin } from '../measure/pause.js';
import { WireCounter } from '../measure/wire-counter.js';
import {
  give,
  take,
  type GiveTask,
  type GiveResult,
  type TakeTask,
  type TakeResult,
} from './handover.js';
import { runHotKey, type HotKeyResult, type HotKeyTask } from './hot-key.js';
import {
  fillUp,
  watchKept,
  type FillResult,
  type FillTask,
  type WatchResult,
  type WatchTask,
} from './kept-locks.js';
import { readMemory } from './memory.js';
import { measureOverhead, type OverheadResult, type OverheadTask } from './overhead.js';
import { runPairs, type PairsResult, type PairsTask } from './pairs.js';

export interface RestTask {
  /** How long to wait at most, in ms. */
  readonly patience: number;
}

/** All tasks, by name. */
export interface Tasks {
  readonly pairs: { readonly input: PairsTask; readonly output: PairsResult };
  readonly hotKey: { readonly input: HotKeyTask; readonly output: HotKeyResult };
  readonly take: { readonly input: TakeTask; readonly output: TakeResult };
  readonly give: { readonly input: GiveTask; readonly output: GiveResult };
  readonly fill: { readonly input: FillTask; readonly output: FillResult };
  readonly watch: { readonly input: WatchTask; readonly output: WatchResult };
  readonly memory: { readonly input: null; readonly output: number };
  readonly overhead: { readonly input: OverheadTask; readonly output: OverheadResult };
  /** Waits for callers of earlier tasks that keep trying; says whether all have returned. */
  readonly rest: { readonly input: RestTask; readonly output: boolean };
}

export type TaskName = keyof Tasks;

type Handlers = {
  readonly [Name in TaskName]: (
    session: Session,
    input: Tasks[Name]['input'],
  ) => Promise<Tasks[Name]['output']>;
};

const handlers: Handlers = {
  pairs: runPairs,
  hotKey: runHotKey,
  take,
  give,
  fill: fillUp,
  watch: watchKept,
  memory: () => Promise.resolve(readMemory()),
  overhead: (_session, input) => measureOverhead(input),
  rest: (session, { patience }) => settlesWithin(session.stragglers(), patience),
};

/** Which candidate to connect to what. */
export interface SessionSetup {
  readonly candidate: CandidateName;
  readonly urls: readonly string[];
  readonly settings: CandidateSettings;
}

/** One connected candidate, and what it holds. */
export class Session {
  readonly held = new Map<string, Held>();
  readonly kept: Kept[] = [];
  #stragglers: Promise<unknown> = Promise.resolve();

  private constructor(
    readonly candidate: Candidate,
    readonly wire: WireCounter,
  ) {}

  static async open({ candidate, urls, settings }: SessionSetup): Promise<Session> {
    const wire = new WireCounter(urls.map((url) => Number(new URL(url).port)));
    const connect = await catalogue[candidate].load();
    return new Session(await connect(urls, settings), wire);
  }

  run<Name extends TaskName>(
    name: Name,
    input: Tasks[Name]['input'],
  ): Promise<Tasks[Name]['output']> {
    return handlers[name](this, input);
  }

  /** Resolves when the callers that tasks have left behind have returned. */
  stragglers(): Promise<unknown> {
    return this.#stragglers;
  }

  /** Lets a task end without these callers, which hang or keep trying. */
  leaveBehind(callers: Promise<unknown>): void {
    this.#stragglers = Promise.all([this.#stragglers, callers]);
  }

  close(): Promise<void> {
    return this.candidate.close();
  }
}
