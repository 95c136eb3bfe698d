// The least that a Redlock client has to do: SET NX PX on all nodes, grant at the quorum,
// compare-and-delete on all nodes. No fencing, no timeouts, no clock, no memory bound: a limit to
// measure against, not a lock to use.
import { createHash } from 'node:crypto';

import type { Candidate, CandidateSettings, Held, Kept } from './candidate.js';

/** Receives a node's answer: done, refused, or null if it cannot be asked. */
export type OnWord = (isDone: boolean | null) => void;

/** How a limit reaches one node. */
export interface LimitNode {
  set(key: string, owner: string, ttl: number, onWord: OnWord): void;
  /** Runs one of {@link limitScripts}: `key`, `owner`, and the ttl where the script takes one. */
  run(script: LimitScript, key: string, owner: string, ttl: number, onWord: OnWord): void;
  close(): void;
}

export interface LimitScript {
  readonly text: string;
  readonly sha: string;
  readonly takesTtl: boolean;
}

export const limitScripts = {
  release: script(
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
    false,
  ),
  extend: script(
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
    true,
  ),
};

/** Quorum, polling and the simplest of watchdogs over some nodes. */
export class QuorumLimit implements Candidate {
  readonly #quorum: number;
  readonly #process = Math.random().toString(36).slice(2, 14);
  readonly #kept = new Set<KeptKey>();
  #owners = 0;
  #watchdog: NodeJS.Timeout | null = null;

  constructor(
    readonly nodes: readonly LimitNode[],
    readonly settings: CandidateSettings,
  ) {
    this.#quorum = Math.floor(nodes.length / 2) + 1;
  }

  acquire(resource: string): Promise<Held> {
    return this.#acquire(resource);
  }

  async keep(resource: string): Promise<Kept> {
    const key = await this.#acquire(resource);
    const kept = new KeptKey(key, () => this.#kept.delete(kept));
    this.#kept.add(kept);
    this.#watchdog ??= setInterval(() => this.#extendAll(), this.settings.ttl / 3);
    return kept;
  }

  close(): Promise<void> {
    if (this.#watchdog !== null) clearInterval(this.#watchdog);
    for (const node of this.nodes) node.close();
    return Promise.resolve();
  }

  /** Resolves when a quorum has answered, or no node is left that could. */
  release(resource: string, owner: string): Promise<unknown> {
    return new Promise<void>((resolve) => {
      let answered = 0;
      let unreachable = 0;
      const onWord: OnWord = (isDone) => {
        if (isDone === null) unreachable += 1;
        else answered += 1;
        if (answered === this.#quorum || answered + unreachable === this.nodes.length) resolve();
      };
      for (const node of this.nodes) node.run(limitScripts.release, resource, owner, 0, onWord);
    });
  }

  #acquire(resource: string): Promise<HeldKey> {
    return new Promise((resolve, reject) => {
      let deadline = 0;
      const onRefused = (): void => {
        deadline ||= performance.now() + this.settings.patience;
        if (performance.now() > deadline) reject(new Error('Not acquired within the patience'));
        else setTimeout(() => this.#attempt(resource, resolve, onRefused), 5 + Math.random() * 10);
      };
      this.#attempt(resource, resolve, onRefused);
    });
  }

  #attempt(resource: string, onGranted: (key: HeldKey) => void, onRefused: () => void): void {
    const owner = `${this.#process}:${(this.#owners += 1).toString(36)}`;
    const refusalsMax = this.nodes.length - this.#quorum;
    let granted = 0;
    let refused = 0;
    const onWord: OnWord = (isDone) => {
      if (isDone === true) {
        granted += 1;
        if (granted === this.#quorum) onGranted(new HeldKey(this, resource, owner));
        return;
      }
      refused += 1;
      if (refused !== refusalsMax + 1) return;
      // On the same connections, so that the next attempt comes after the release.
      void this.release(resource, owner);
      onRefused();
    };
    for (const node of this.nodes) node.set(resource, owner, this.settings.ttl, onWord);
  }

  // All at once, one command each: the baseline for batches and a timer wheel.
  #extendAll(): void {
    for (const { key, votes } of this.#kept) {
      votes.denied = 0;
      const onWord: OnWord = (isDone) => {
        if (isDone !== true) votes.denied += 1;
        if (votes.denied > this.nodes.length - this.#quorum) votes.isLost = true;
      };
      for (const node of this.nodes) {
        node.run(limitScripts.extend, key.resource, key.owner, this.settings.ttl, onWord);
      }
    }
  }
}

class HeldKey implements Held {
  constructor(
    readonly limit: QuorumLimit,
    readonly resource: string,
    readonly owner: string,
  ) {}

  release(): Promise<unknown> {
    return this.limit.release(this.resource, this.owner);
  }
}

class KeptKey implements Kept {
  readonly votes = { denied: 0, isLost: false };

  constructor(
    readonly key: HeldKey,
    readonly onReleased: () => void,
  ) {}

  isLost(): boolean {
    return this.votes.isLost;
  }

  release(): Promise<unknown> {
    this.onReleased();
    return this.key.release();
  }
}

function script(text: string, takesTtl: boolean): LimitScript {
  return { text, sha: createHash('sha1').update(text).digest('hex'), takesTtl };
}
