// A worker of a torture run, as its parent sees it.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

import type { Milliseconds } from 'nestjs-locked';

import type { WorkerNews, WorkerOrder, WorkerSettings } from './worker.js';

/** A running worker process. */
export class WorkerProcess {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #errors: string[] = [];
  #isEndExpected = false;

  private constructor(script: string, settings: WorkerSettings, onDeath: (how: string) => void) {
    this.#name = settings.name;
    this.#child = fork(script, [JSON.stringify(settings)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => this.#errors.push(chunk.toString()));
    this.#child.on('error', () => undefined);
    this.#child.once('exit', (code, signal) => {
      running.delete(this.#child);
      const isGraceful = this.#isEndExpected && (code === 0 || signal === 'SIGKILL');
      if (!isGraceful) onDeath(`${this.#name}: ${signal ?? `exit code ${code}`}: ${this.#said()}`);
    });
    running.add(this.#child);
  }

  /** Starts a worker, and resolves when it works. `onDeath` hears of an end nobody asked for. */
  static async start(
    script: string,
    settings: WorkerSettings,
    onDeath: (how: string) => void,
  ): Promise<WorkerProcess> {
    const worker = new WorkerProcess(script, settings, onDeath);
    await worker.#news('ready');
    return worker;
  }

  /** SIGSTOP. */
  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  /** SIGCONT. */
  resume(): void {
    this.#child.kill('SIGCONT');
  }

  /** SIGKILL; resolves when the process is gone. */
  async kill(): Promise<void> {
    this.#isEndExpected = true;
    const gone = this.#gone();
    this.#child.kill('SIGKILL');
    await gone;
  }

  /** Blocks its event loop. */
  block(duration: Milliseconds): void {
    this.#order({ kind: 'block', duration });
  }

  /** When the worker is granted a lock, from now on. */
  async nextGrant(): Promise<Milliseconds> {
    const news = this.#news('granted');
    this.#order({ kind: 'tell next grant' });
    return (await news).at;
  }

  /** Lets it finish what it does, close its application and end. One that hangs is a death. */
  async stop(): Promise<void> {
    const impatience = setTimeout(() => this.#child.kill('SIGABRT'), STOP_MAX);
    this.#isEndExpected = true;
    const gone = this.#gone();
    this.#order({ kind: 'stop' });
    await gone;
    clearTimeout(impatience);
  }

  #order(order: WorkerOrder): void {
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }

  #news<Kind extends WorkerNews['kind']>(kind: Kind): Promise<WorkerNews & { kind: Kind }> {
    return new Promise((resolve, reject) => {
      const onMessage = (news: WorkerNews): void => {
        if (news.kind !== kind) return;
        stop();
        resolve(news as WorkerNews & { kind: Kind });
      };
      const onExit = (): void => {
        stop();
        reject(new Error(`${this.#name} ended early: ${this.#said()}`));
      };
      const stop = (): void => {
        this.#child.off('message', onMessage).off('exit', onExit);
      };
      this.#child.on('message', onMessage).on('exit', onExit);
    });
  }

  async #gone(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await once(this.#child, 'exit');
    }
  }

  #said(): string {
    return this.#errors.join('').slice(-2_000);
  }
}

const STOP_MAX: Milliseconds = 30_000;

// A run that fails half way leaves its workers; they end with it at the latest.
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
