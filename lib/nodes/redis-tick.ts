// Ends a tick for all nodes of a set. Mostly they are asked the same, and encoding a call costs
// more than all else about it: it is done once, not once for each node.
import { afterMicrotasks, inMicrotask, type Environment } from '../core/environment.js';
import type { EncodedCommand } from './redis-command.js';
import { isAskedAlike, type BatchedOperation } from './redis-script-arguments.js';
import { TAGS } from './redis-stamp.js';

/** Collects what a tick asks of one node. */
export interface Collector {
  /** Sends one call of what it has collected, if anything; whether there is more. */
  sendNext(memo: CallMemo): boolean;
}

/** A call as it is sent, and what the reply to it is known by. */
export interface TaggedCall {
  readonly tag: number;
  readonly command: EncodedCommand;
}

/** Remembers a call. The last one is enough: the nodes send one each, in turn. */
export class CallMemo {
  #script = '';
  #operations: readonly BatchedOperation[] = [];
  #call: TaggedCall | null = null;

  /** What `encode` gives for these operations, or gave if the last call was this one. */
  encodeOnce(
    script: string,
    operations: readonly BatchedOperation[],
    encode: () => TaggedCall,
  ): TaggedCall {
    if (this.#call === null || !this.#isLast(script, operations)) {
      this.#script = script;
      this.#operations = operations;
      this.#call = encode();
    }
    return this.#call;
  }

  #isLast(script: string, operations: readonly BatchedOperation[]): boolean {
    const last = this.#operations;
    if (script !== this.#script || operations.length !== last.length) return false;
    return last.every((operation, index) => isAskedAlike(operation, operations[index]));
  }
}

/** The ticks of one set of nodes. */
export class RedisTick {
  #collectors: Collector[] = [];
  /** The last one. Processes begin anywhere: their replies may be mixed up too. */
  #tag: number;

  constructor(environment: Environment) {
    this.#tag = Math.floor(environment.random() * TAGS);
  }

  readonly #endAfterMicrotasks = (): void => afterMicrotasks(() => this.#end());

  /** What `collector` has when the tick ends is sent then. */
  join(collector: Collector): void {
    // After all microtasks of this tick: callers resumed by one reply ask again in one call,
    // and a lock that is released and handed on is one call too.
    if (this.#collectors.length === 0) inMicrotask(this.#endAfterMicrotasks);
    this.#collectors.push(collector);
  }

  /** What the reply to the next call is known by. */
  nextTag(): number {
    this.#tag = (this.#tag + 1) % TAGS;
    return this.#tag;
  }

  // One call of each in turn: no server waits until the others have all of theirs.
  #end(): void {
    const memo = new CallMemo();
    let open = this.#collectors;
    this.#collectors = [];
    while (open.length > 0) open = open.filter((collector) => collector.sendNext(memo));
  }
}
