// A client's way to one server: sends what a tick asks in calls of at most 128 operations.
import { Redis } from 'ioredis';

import type { World } from '../../lib/core/lock-node.js';
import { batchArguments, type BatchedOperation } from '../../lib/nodes/redis-script-arguments.js';
import { pause } from '../measure/pause.js';
import type { Form } from './forms.js';

export type OnAnswer = (vote: string, figure: number, nodeTime: number) => void;

/** What a node is asked to do about one lock. */
export interface Operation {
  readonly name: 'acquire' | 'release';
  readonly resource: string;
  readonly owner: string;
  readonly token: number;
  readonly onAnswer: OnAnswer;
}

/** Of three servers. */
export const QUORUM = 2;
const TTL = 10_000;
const BATCH_MAX = 128;

/** Connects a node to each server. `delay` is that of each direction, in ms. */
export async function connectNodes(
  urls: readonly string[],
  form: Form,
  delay = 0,
): Promise<ScriptNode[]> {
  return Promise.all(
    urls.map(async (url) => {
      const client = new Redis(url);
      const sha = String(await client.script('LOAD', form.script));
      return new ScriptNode(client, sha, form, delay);
    }),
  );
}

/** Makes the servers of these nodes forget all locks and tokens. */
export async function forgetAll(nodes: readonly ScriptNode[]): Promise<void> {
  await Promise.all(nodes.map(({ client }) => client.flushall()));
}

/** One connection. */
export class ScriptNode {
  #operations: Operation[] = [];

  constructor(
    readonly client: Redis,
    private readonly sha: string,
    private readonly form: Form,
    private readonly delay: number,
  ) {}

  add(operation: Operation): void {
    if (this.#operations.push(operation) === 1) setImmediate(() => this.#flush());
  }

  /** Closes after what is still on its way. */
  async close(): Promise<void> {
    await pause(2 * this.delay + 20);
    this.client.disconnect();
  }

  #flush(): void {
    const operations = this.#operations;
    this.#operations = [];
    for (let from = 0; from < operations.length; from += BATCH_MAX) {
      const call = operations.slice(from, from + BATCH_MAX);
      this.#later(() => void this.#call(call));
    }
  }

  async #call(operations: readonly Operation[]): Promise<void> {
    const { hasEarlyRecords, shared, world } = this.form;
    const keys = [...shared];
    for (const { resource } of operations) {
      keys.push(resource);
      if (hasEarlyRecords) keys.push(`redlock:fence:${resource}`);
    }
    const asked = operations.map((operation) => batched(operation, world));
    const [keyCount = 0, ...rest] = batchArguments(0, world, asked);
    const texts = rest.slice(Number(keyCount));
    const reply = await this.client.evalsha(this.sha, keys.length, ...keys, ...texts);
    this.#later(() => answer(operations, Array.isArray(reply) ? (reply as unknown[]) : [reply]));
  }

  #later(what: () => void): void {
    if (this.delay === 0) what();
    else setTimeout(what, this.delay);
  }
}

function batched({ name, owner, resource, token }: Operation, world: World): BatchedOperation {
  const request = { world, ownerId: owner, resources: [resource], token, ttl: TTL };
  return name === 'acquire'
    ? { name, request }
    : { name, request: { ...request, wakes: true }, isListening: false };
}

function answer(operations: readonly Operation[], [now, ...answers]: readonly unknown[]): void {
  operations.forEach(({ name, onAnswer }, index) => {
    const given = answers[index];
    const plain = [name === 'acquire' ? 'granted' : 'done', 0];
    const [vote, figure] = Array.isArray(given) ? (given as unknown[]) : plain;
    onAnswer(String(vote), Number(figure), Number(now));
  });
}
