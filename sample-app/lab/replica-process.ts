import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import type { VisitOutcome } from './messages.js';
import type { ReplicaMessage, ReplicaNews, SellRequest } from './replica-messages.js';

export interface ReplicaOptions {
  readonly nodes: readonly string[];
  readonly storeUrl: string;
  /** From 1. */
  readonly number: number;
  readonly onNews: (news: ReplicaNews) => void;
}

/** A selling process. It ends with this one, however this one ends: see replica.ts. */
export class ReplicaProcess {
  readonly #child: ChildProcess;
  readonly #answers = new Map<number, (outcome: VisitOutcome) => void>();
  readonly #isReady: Promise<void>;

  constructor({ nodes, storeUrl, number, onNews }: ReplicaOptions) {
    const main = fileURLToPath(new URL('replica.js', import.meta.url));
    this.#child = fork(main, {
      // Not as arguments, which everybody on the machine can read: URLs may hold passwords.
      env: {
        ...process.env,
        REDIS_NODES: nodes.join(','),
        STORE_URL: storeUrl,
        LAB_REPLICA: `${number}`,
      },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // A process group of its own: Ctrl-C reaches us alone, and it ends when we have ended.
      detached: true,
    });
    this.#isReady = new Promise((resolve, reject) => {
      this.#child.on('message', (message: ReplicaMessage) => {
        if (message.type === 'ready') resolve();
        else if (message.type === 'news') onNews(message);
        else this.#answer(message.counter, message.outcome);
      });
      this.#child.once('error', reject);
      this.#child.once('exit', () => {
        reject(new Error(`Replica ${number} has ended`));
        for (const counter of this.#answers.keys()) this.#answer(counter, 'failed');
      });
    });
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves when it sells; rejects when it ends before. */
  whenReady(): Promise<void> {
    return this.#isReady;
  }

  /** Serves one buyer. */
  sell(request: SellRequest): Promise<VisitOutcome> {
    if (this.hasEnded) return Promise.resolve('failed');
    return new Promise((resolve) => {
      this.#answers.set(request.counter, resolve);
      this.#child.send(request);
    });
  }

  /** Ends it, and resolves when it is gone. */
  async end(): Promise<void> {
    if (this.hasEnded) return;
    const exited = once(this.#child, 'exit');
    this.#child.disconnect();
    await exited;
  }

  #answer(counter: number, outcome: VisitOutcome): void {
    this.#answers.get(counter)?.(outcome);
    this.#answers.delete(counter);
  }
}
