import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

import { now } from './clock.js';
import type { Visit, VisitOutcome } from './messages.js';
import type { ReplicaMessage, ReplicaNews, SellRequest } from './replica-messages.js';

export interface ReplicaOptions {
  readonly nodes: readonly string[];
  readonly storeUrl: string;
  /** From 1. */
  readonly number: number;
  readonly onNews: (news: ReplicaNews) => void;
}

/** A selling process. It ends with this process, however that ends: see replica.ts. */
export class ReplicaProcess {
  /** Its name in the log. */
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #answers = new Map<number, (outcome: VisitOutcome) => void>();
  /** The visits that have begun and not ended, by id. */
  readonly #visits = new Map<string, Visit>();
  readonly #onNews: (news: ReplicaNews) => void;
  readonly #isReady: Promise<void>;

  constructor({ nodes, storeUrl, number, onNews }: ReplicaOptions) {
    this.name = `replica ${number}`;
    this.#onNews = onNews;
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
      // A process group of its own: Ctrl-C reaches us alone; the child ends when we have ended.
      detached: true,
    });
    this.#isReady = new Promise((resolve, reject) => {
      this.#child.on('message', (message: ReplicaMessage) => {
        if (message.type === 'ready') resolve();
        else if (message.type === 'news') this.#tell(message);
        else this.#answer(message.counter, message.outcome);
      });
      // `on`: each request that is sent before its end is known fails with its own error.
      this.#child.on('error', reject);
      this.#child.once('exit', () => {
        reject(new Error(`${this.name} has ended`));
        for (const counter of this.#answers.keys()) this.#answer(counter, 'failed');
      });
      // Comes after its last news.
      this.#child.once('disconnect', () => this.#seeOut());
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves when it is ready to sell; rejects if it ends before that. */
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

  #tell(news: ReplicaNews): void {
    for (const visit of news.visits) {
      if (visit.leftAt === null) this.#visits.set(visit.id, visit);
      else this.#visits.delete(visit.id);
    }
    this.#onNews(news);
  }

  /** Ends the open visits: otherwise their buyers would seem inside for ever. */
  #seeOut(): void {
    const end = { leftAt: now(), outcome: 'failed' } as const;
    const visits = [...this.#visits.values()].map((visit) => ({ ...visit, ...end }));
    this.#tell({ visits, log: [], traffic: [] });
  }

  #answer(counter: number, outcome: VisitOutcome): void {
    this.#answers.get(counter)?.(outcome);
    this.#answers.delete(counter);
  }
}
