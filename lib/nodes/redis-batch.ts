// Collects what one tick addresses to a node and sends it as one script call. Encoding a command
// costs the client more than the lock itself; a lone operation goes as a script of its own.
import type { FailedAnswer, World } from '../core/lock-node.js';
import type { OnReply, RedisConnection } from './redis-connection.js';
import { isReadOnly, isUnknownScript, outcomeOfError } from './redis-outcomes.js';
import {
  batchArguments,
  ownerArguments,
  type BatchedOperation,
  type ScriptArguments,
} from './redis-script-arguments.js';
import { scriptsOf, type RedisScript, type RedisScripts } from './redis-scripts.js';

/** An operation that waits for its tick to end. */
export type Operation = BatchedOperation & {
  /**
   * Whether nobody wants it any more. Asked only before it is sent a second time: an acquisition
   * that ran after its release would be a ghost.
   */
  isSettled(): boolean;
  /** Called once. Operations of one call that were answered alike get the same `reply`. */
  onReply(failure: FailedAnswer | null, reply: unknown): void;
};

/** Sends a script to a connection, by its hash or with its text. */
export type SendScript = (
  connection: RedisConnection,
  command: 'evalsha' | 'eval',
  script: RedisScript,
  args: ScriptArguments,
  onReply: OnReply,
) => void;

/** The operations of the running tick, for one node. They take effect in the order of `add`. */
export class RedisBatch {
  readonly #send: SendScript;
  readonly #isPersistent: boolean;
  readonly #scripts = new WeakMap<World, RedisScripts>();
  #operations: Operation[] = [];
  #connection: RedisConnection | null = null;

  readonly #flush = (): void => this.flush();
  // Node empties the queue of microtasks before it takes this one.
  readonly #flushAfterMicrotasks = (): void => process.nextTick(this.#flush);

  constructor(isPersistent: boolean, send: SendScript) {
    this.#isPersistent = isPersistent;
    this.#send = send;
  }

  /** The connection that this tick's operations go to; null where there are none yet. */
  get connection(): RedisConnection | null {
    return this.#operations.length > 0 ? this.#connection : null;
  }

  /** Sends an operation on `connection` when the tick has ended. */
  add(connection: RedisConnection, operation: Operation): void {
    // What was meant for another connection, or another world, goes first and by itself.
    if (!this.#fits(connection, operation)) this.flush();
    if (this.#operations.length === 0) {
      this.#connection = connection;
      // After all microtasks of this tick: callers resumed by one reply ask again in one call,
      // and a lock that is released and handed on is one call too.
      queueMicrotask(this.#flushAfterMicrotasks);
    }
    this.#operations.push(operation);
  }

  /** Sends what has been collected, in calls of at most 128 locks. */
  flush(): void {
    const operations = this.#operations;
    const connection = this.#connection;
    this.#operations = [];
    if (connection === null) return;
    let call: Operation[] = [];
    let locks = 0;
    for (const operation of operations) {
      const { length } = operation.request.resources;
      if (locks > 0 && locks + length > LOCKS_MAX) {
        this.#sendCall(connection, 'evalsha', call);
        call = [];
        locks = 0;
      }
      call.push(operation);
      locks += length;
    }
    this.#sendCall(connection, 'evalsha', call);
  }

  #fits(connection: RedisConnection, { request }: Operation): boolean {
    const [first] = this.#operations;
    if (first === undefined) return true;
    return connection === this.#connection && request.world === first.request.world;
  }

  #sendCall(
    connection: RedisConnection,
    command: 'evalsha' | 'eval',
    operations: readonly Operation[],
  ): void {
    const [first] = operations;
    if (first === undefined) return;
    const { world } = first.request;
    const isLone = operations.length === 1;
    const script = this.#scriptsOf(world)[isLone ? first.name : 'batch'];
    const args = isLone ? ownerArguments(first) : batchArguments(world, operations);
    this.#send(connection, command, script, args, (failure, reply) => {
      if (failure !== null && command === 'evalsha' && isUnknownScript(failure)) {
        this.#sendAgain(connection, operations, failure);
      } else if (failure !== null) {
        for (const operation of operations) operation.onReply(failure, null);
      } else if (isLone) {
        first.onReply(null, reply);
      } else {
        answer(connection, operations, reply);
      }
    });
  }

  #scriptsOf(world: World): RedisScripts {
    let scripts = this.#scripts.get(world);
    if (scripts === undefined) {
      scripts = scriptsOf(world, this.#isPersistent);
      this.#scripts.set(world, scripts);
    }
    return scripts;
  }

  // The server does not know the script: nothing ran, so its text is sent once, on the same
  // connection, for what is still wanted.
  #sendAgain(
    connection: RedisConnection,
    operations: readonly Operation[],
    failure: FailedAnswer,
  ): void {
    const wanted = operations.filter((operation) => !operation.isSettled());
    this.#sendCall(connection, 'eval', wanted);
    for (const operation of operations) {
      if (!wanted.includes(operation)) operation.onReply(failure, null);
    }
  }
}

function answer(
  connection: RedisConnection,
  operations: readonly Operation[],
  reply: unknown,
): void {
  const answers = listOf(reply);
  const now = answers[0];
  operations.forEach((operation, index) => {
    const given = answers[index + 1];
    if (typeof given === 'number') {
      // As each would be answered by itself.
      operation.onReply(null, operation.name === 'release' ? given : now);
      return;
    }
    const [vote, figure] = listOf(given);
    // How the batch script tells of an operation that failed by itself.
    const failure = vote === 'error' ? outcomeOfError(String(figure)) : null;
    operation.onReply(failure, failure === null ? [vote, now, figure] : null);
    // As when the whole call is refused for it: this connection will never write again.
    if (failure !== null && isReadOnly(failure)) connection.end(failure);
  });
}

function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

/** Redis serves nobody else while a script runs: enough to save the encoding, no more. */
const LOCKS_MAX = 128;
