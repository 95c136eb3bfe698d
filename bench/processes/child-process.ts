// Candidates in processes of their own, so that none benefits or suffers from another's heap.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import type { Answer, CandidateProcess, Launch, Order } from './candidate-process.js';
import type { SessionSetup, TaskName, Tasks } from '../tasks/session.js';
import { settlesWithin } from '../measure/pause.js';

/** @param profileFolder Where each process writes a CPU profile; null for none. */
export function childLauncher(profileFolder: string | null): Launch {
  return async (setup) => {
    const child = new CandidateChild(profileFolder);
    try {
      await child.open(setup);
      return child;
    } catch (error) {
      await child.stop();
      throw error;
    }
  };
}

interface Pending {
  readonly resolve: (output: unknown) => void;
  readonly reject: (error: Error) => void;
}

const START_LIMIT = 20_000;
const STOP_LIMIT = 3_000;
const worker = fileURLToPath(new URL('./worker.js', import.meta.url));
// Room for what S9 allocates between two collections.
const memoryOptions: string[] = [
  '--expose-gc',
  '--max-semi-space-size=32',
  '--min-semi-space-size=16',
];

class CandidateChild implements CandidateProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #said = '';
  #end: string | null = null;

  constructor(profileFolder: string | null) {
    this.#child = fork(worker, profileFolder === null ? [] : [profileFolder], {
      execArgv: memoryOptions,
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    running.add(this.#child);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#said = `${this.#said}${text}`.slice(-2_000);
    });
    this.#child.on('message', (answer: Answer) => this.#onAnswer(answer));
    this.#child.once('close', (code, signal) => {
      running.delete(this.#child);
      this.#onEnd(`The process ended (${signal ?? code}): ${this.#said.trim()}`);
    });
    this.#child.once('error', (error) => this.#onEnd(String(error)));
  }

  async open(setup: SessionSetup): Promise<void> {
    await this.#order({ kind: 'open', setup }, START_LIMIT);
  }

  run<Name extends TaskName>(
    name: Name,
    input: Tasks[Name]['input'],
    limit: number,
  ): Promise<Tasks[Name]['output']> {
    return this.#order({ kind: 'run', name, input }, limit) as Promise<Tasks[Name]['output']>;
  }

  async stop(): Promise<void> {
    if (this.#end !== null) return;
    const ended = once(this.#child, 'close');
    void this.#order({ kind: 'close' }, STOP_LIMIT).catch(() => undefined);
    if (await settlesWithin(ended, STOP_LIMIT)) return;
    this.#child.kill('SIGKILL');
    await ended;
  }

  async #order(order: Order, limit: number): Promise<unknown> {
    if (this.#end !== null) throw new Error(this.#end);
    const id = (this.#lastId += 1);
    const answered = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#child.send({ ...order, id });
    });
    if (!(await settlesWithin(answered, limit))) {
      this.#pending.delete(id);
      this.#child.kill('SIGKILL');
      const what = order.kind === 'run' ? order.name : order.kind;
      throw new Error(`No answer to '${what}' within ${limit / 1_000} s`);
    }
    return answered;
  }

  #onAnswer(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    if ('error' in answer) pending?.reject(new Error(answer.error));
    else pending?.resolve(answer.output);
  }

  #onEnd(reason: string): void {
    this.#end ??= reason;
    for (const { reject } of this.#pending.values()) reject(new Error(reason));
    this.#pending.clear();
  }
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
