// Ends a tick for all nodes of a set. Mostly they are asked the same, and encoding a call costs
// more than all else about it: so it is done once, not once for each node.
import { afterMicrotasks, atTickEnd, type Environment } from '../core/environment.js';
import type { EncodedCommand } from './redis-command.js';
import { isAskedAlike, type BatchedOperation } from './redis-script-arguments.js';
import { TAGS } from './redis-stamp.js';

/** Collects what a tick asks of one node. */
export interface Collector {
  /** Sends what it has collected, if anything, as one call. */
  flush(memo: CallMemo): void;
}

/** A call as it is sent, and the tag that its reply is recognised by. */
export interface TaggedCall {
  readonly tag: number;
  readonly command: EncodedCommand;
}

/** Remembers a call. The last one is enough: the nodes send one each, in turn. */
export class CallMemo {
  #script = '';
  #operations: readonly BatchedOperation[] = [];
  #call: TaggedCall | null = null;

  /** What `encode` returns for these operations, or returned if the last call was the same. */
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
  #isHurrying = false;
  /** The last tag. Each process begins anywhere: replies of two processes may be mixed up too. */
  #tag: number;

  constructor(environment: Environment) {
    this.#tag = Math.floor(environment.random() * TAGS);
  }

  /** Sends what `collector` has when the tick ends; sooner with `hurry` or `end`. */
  join(collector: Collector): void {
    // Not before: each callback of a tick, as of a request or a timer, may ask for something, and
    // all that is one call. So is a lock that is released and handed on.
    if (this.#collectors.length === 0) atTickEnd(() => this.end());
    this.#collectors.push(collector);
  }

  /** Does not wait for the end of the tick, but for that of the running callback. */
  hurry(): void {
    if (this.#isHurrying) return;
    this.#isHurrying = true;
    afterMicrotasks(() => {
      this.#isHurrying = false;
      this.end();
    });
  }

  /** The tag that the reply to the next call is recognised by. */
  nextTag(): number {
    this.#tag = (this.#tag + 1) % TAGS;
    return this.#tag;
  }

  /** Sends what all nodes have collected so far. */
  end(): void {
    const memo = new CallMemo();
    const collectors = this.#collectors;
    this.#collectors = [];
    for (const collector of collectors) collector.flush(memo);
  }
}
