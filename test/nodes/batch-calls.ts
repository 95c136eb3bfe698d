// Batches, each called by itself on the server of the spec, and what they answer.
import type { Redis } from 'ioredis';

import type { Microseconds } from '../../lib/core/units.js';
import {
  batchArguments,
  ownerArguments,
  type BatchedOperation,
} from '../../lib/nodes/redis-script-arguments.js';
import { scriptsOf } from '../../lib/nodes/redis-scripts.js';
import { worldOf } from '../support/node-harness.js';
import { client } from '../support/redis-of-spec.js';
import { runAt, saidIn, TAG } from '../support/scripts-at.js';

export async function oneByOne(
  operations: readonly BatchedOperation[],
  now: Microseconds,
): Promise<string[]> {
  const answers: string[] = [];
  for (const operation of operations) {
    const settings = { of: operation.request.world };
    try {
      const reply = await runAt(now, operation.name, ownerArguments(TAG, operation), settings);
      // Of a lone operation the vote comes after the time.
      answers.push(readable(operation, Array.isArray(reply) ? reply.slice(1) : reply));
    } catch (error) {
      answers.push(errorCode((error as Error).message));
    }
  }
  return answers;
}

export async function runBatch(
  operations: readonly BatchedOperation[],
  on: Redis = client,
): Promise<unknown> {
  const world = operations[0]?.request.world ?? worldOf();
  const { text } = scriptsOf(world, false).batch;
  return saidIn(await on.call('eval', [text, ...batchArguments(TAG, world, operations)]));
}

export async function asBatch(
  operations: readonly BatchedOperation[],
  on?: Redis,
): Promise<string[]> {
  return readableAll(operations, await runBatch(operations, on));
}

export async function asBatchAt(
  now: Microseconds,
  operations: readonly BatchedOperation[],
): Promise<string[]> {
  return readableAll(operations, await runBatchAt(now, operations));
}

function readableAll(operations: readonly BatchedOperation[], reply: unknown): string[] {
  const answers: unknown[] = Array.isArray(reply) ? reply.slice(1) : operations.map(() => 0);
  return answers.map((answer, index) => readable(operations[index], answer));
}

export function runBatchAt(
  now: Microseconds,
  operations: readonly BatchedOperation[],
): Promise<unknown> {
  const world = operations[0]?.request.world ?? worldOf();
  return runAt(now, 'batch', batchArguments(TAG, world, operations), { of: world });
}

// Without times, which differ from call to call.
function readable(operation: BatchedOperation | undefined, answer: unknown): string {
  if (typeof answer === 'number') {
    return operation?.name === 'release' ? `done ${answer}` : 'granted';
  }
  const [vote, figure] = answer as [string, unknown];
  return vote === 'error' ? errorCode(String(figure)) : vote;
}

function errorCode(message: string): string {
  return `error ${/^[A-Z]+/.exec(message)?.[0]}`;
}
