// How often the nodes are asked and how fast they answer, from what ioredis reports per command.
import { tracingChannel } from 'node:diagnostics_channel';

import type { Milliseconds } from 'nestjs-locked';

import { now } from './clock.js';

/** What one process heard from one node over some time. */
export interface NodeTraffic {
  /** `host:port` of the server. */
  readonly address: string;
  /** Answered script calls of the lock protocol, each of them a vote. */
  readonly votes: number;
  readonly answers: number;
  /** The sum over all answers, in ms. */
  readonly latencySum: Milliseconds;
}

interface CommandTrace {
  readonly command: string;
  readonly serverAddress: string;
  readonly serverPort: number | undefined;
}

/** Listens to all commands of this process, until it is stopped. */
export class TrafficMeter {
  readonly #nodes = new Map<string, NodeTraffic>();
  readonly #sentAt = new WeakMap<object, Milliseconds>();
  readonly #channel = tracingChannel('ioredis:command');
  readonly #onTrace = {
    start: (trace: object): void => {
      this.#sentAt.set(trace, now());
    },
    asyncEnd: (trace: object): void => {
      // A command that was lost with its connection got no answer.
      if (!('error' in trace) || trace.error === undefined) this.#count(trace as CommandTrace);
    },
    end: (): void => undefined,
    asyncStart: (): void => undefined,
    error: (): void => undefined,
  };

  constructor() {
    this.#channel.subscribe(this.#onTrace);
  }

  stop(): void {
    this.#channel.unsubscribe(this.#onTrace);
  }

  /** What was heard since the last call. */
  drain(): NodeTraffic[] {
    const traffic = [...this.#nodes.values()];
    this.#nodes.clear();
    return traffic;
  }

  #count(trace: CommandTrace): void {
    const address = `${trace.serverAddress}:${trace.serverPort ?? ''}`;
    const latency = now() - (this.#sentAt.get(trace) ?? now());
    const isVote = trace.command === 'evalsha';
    const seen = { address, votes: isVote ? 1 : 0, answers: 1, latencySum: latency };
    this.#nodes.set(address, sum(this.#nodes.get(address), seen));
  }
}

/** Adds two counts of one node. */
export function sum(a: NodeTraffic | undefined, b: NodeTraffic): NodeTraffic {
  if (a === undefined) return b;
  return {
    address: b.address,
    votes: a.votes + b.votes,
    answers: a.answers + b.answers,
    latencySum: a.latencySum + b.latencySum,
  };
}
