// Collects what one tick addresses to a node and sends it as one script call: a command costs the
// client more than the lock itself. A lone operation goes as a script of its own.
import type { FailedAnswer, World } from '../core/lock-node.js';
import { encodeCommand, type EncodedCommand } from './redis-command.js';
import type { OnReply, RedisConnection } from './redis-connection.js';
import { isReadOnly, isUnknownScript, lostOutcome, outcomeOfError } from './redis-outcomes.js';
import { batchArguments, ownerArguments, type BatchedOperation } from './redis-script-arguments.js';
import { scriptsOf, type RedisScripts } from './redis-scripts.js';
import { unstamped } from './redis-stamp.js';
import { CallMemo, type Collector, type RedisTick } from './redis-tick.js';

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

/** Sends a command to a connection. */
export type SendCommand = (
  connection: RedisConnection,
  command: EncodedCommand,
  onReply: OnReply,
) => void;

/** The operations of the running tick, for one node. They take effect in the order of `add`. */
export class RedisBatch implements Collector {
  readonly #tick: RedisTick;
  readonly #send: SendCommand;
  readonly #isPersistent: boolean;
  readonly #scripts = new WeakMap<World, RedisScripts>();
  /** Those of the next call. */
  #operations: Operation[] = [];
  /** How many locks they want. */
  #locks = 0;
  // The one that the operations go to. Not kept when all is sent: it may end, and with it would be
  // kept what belongs to a call.
  #connection: RedisConnection | null = null;

  constructor(tick: RedisTick, isPersistent: boolean, send: SendCommand) {
    this.#tick = tick;
    this.#isPersistent = isPersistent;
    this.#send = send;
  }

  /**
   * Sends an operation on `connection` when the tick has ended; sooner with a full call, or with an
   * extension.
   */
  add(connection: RedisConnection, operation: Operation): void {
    // For all nodes: this one is mostly the first to be asked, and the others have as much to send.
    if (!this.#fits(connection, operation)) this.#tick.end();
    if (this.#connection === null) {
      this.#connection = connection;
      this.#tick.join(this);
    }
    this.#operations.push(operation);
    this.#locks += operation.request.resources.length;
    // In a process with more to do than it can, ticks take seconds, and each may be the last that a
    // lock has time for. What one callback extends, as the watchdog does, is one call all the same.
    if (operation.name === 'extend') this.#tick.hurry();
  }

  /** Sends what has been collected, if anything. */
  flush(memo = new CallMemo()): void {
    const connection = this.#connection;
    if (connection === null) return;
    const operations = this.#operations;
    this.#connection = null;
    this.#operations = [];
    this.#locks = 0;
    this.#sendCall(connection, 'evalsha', operations, memo);
  }

  // A call is for one connection and one world. A single operation may have more locks than fit.
  #fits(connection: RedisConnection, { request }: Operation): boolean {
    const first = this.#operations[0];
    if (first === undefined) return true;
    if (connection !== this.#connection || request.world !== first.request.world) return false;
    return this.#locks + request.resources.length <= LOCKS_MAX;
  }

  #sendCall(
    connection: RedisConnection,
    command: 'evalsha' | 'eval',
    operations: readonly Operation[],
    memo: CallMemo,
  ): void {
    const [first] = operations;
    if (first === undefined) return;
    const { world } = first.request;
    const isLone = operations.length === 1;
    const { sha, text } = this.#scriptsOf(world)[isLone ? first.name : 'batch'];
    const script = command === 'evalsha' ? sha : text;
    const call = memo.encodeOnce(script, operations, () => {
      const tag = this.#tick.nextTag();
      const args = isLone ? ownerArguments(tag, first) : batchArguments(tag, world, operations);
      return { tag, command: encodeCommand(command, [script, ...args]) };
    });
    this.#send(connection, call.command, (failure, reply) => {
      if (failure !== null && command === 'evalsha' && isUnknownScript(failure)) {
        this.#sendAgain(connection, operations, failure);
        return;
      }
      const said = failure === null ? unstamped(reply, call.tag) : null;
      if (said === null) {
        // After one reply to another command, each that follows may be such a reply too.
        if (failure === null) connection.end(MISDIRECTED);
        for (const operation of operations) operation.onReply(failure ?? MISDIRECTED, null);
      } else if (isLone) {
        first.onReply(null, said);
      } else {
        answer(connection, operations, said);
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
    this.#sendCall(connection, 'eval', wanted, new CallMemo());
    for (const operation of operations) {
      if (!wanted.includes(operation)) operation.onReply(failure, null);
    }
  }
}

function answer(
  connection: RedisConnection,
  operations: readonly Operation[],
  said: number | readonly unknown[],
): void {
  // One number for all: the node's time.
  const areAlike = typeof said === 'number';
  const now = areAlike ? said : said[0];
  operations.forEach((operation, index) => {
    const own = areAlike ? 0 : said[index + 1];
    if (typeof own === 'number') {
      // As a lone operation would be answered.
      operation.onReply(null, operation.name === 'release' ? own : now);
      return;
    }
    const [vote, ...figures] = listOf(own);
    // How the batch script tells of an operation that failed by itself.
    const failure = vote === 'error' ? outcomeOfError(String(figures[0])) : null;
    operation.onReply(failure, failure === null ? [now, vote, ...figures] : null);
    // As when a whole call is refused for this: the connection will never write again.
    if (failure !== null && isReadOnly(failure)) connection.end(failure);
  });
}

function listOf(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : [];
}

const MISDIRECTED = lostOutcome('A reply to another command: something mixes up replies');

/** Redis serves nobody else while a script runs: enough to save the encoding, no more. */
const LOCKS_MAX = 128;
