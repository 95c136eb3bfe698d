// What calls at random consist of: what they ask for, and what runs under their locks.
import type { Lock } from 'nestjs-locked';

import type { Client } from './call-clients.js';
import type { Domain } from './call-domains.js';

/** What a method returns: a promise, an async generator, or an Observable. */
export type Kind = 'promise' | 'steps' | 'values';

/** Where an endpoint's lock has its names from. */
export type Origin = 'literal' | 'context' | 'arguments';

/** How a lock is asked for: by hand, for a body, by a method of some kind, or by an endpoint. */
export type Way = 'acquire' | 'using' | Kind | Origin;

/** What is asked for, and from where. */
export interface Request {
  readonly way: Way;
  /** Which lock domain is asked. */
  readonly domain: Domain;
  readonly resources: readonly string[];
  readonly isReentrant: boolean;
  /** Whether it does without the lock where others hold it. */
  readonly isOptional: boolean;
  /** The innermost body in whose context it is made, open or not; null outside of all. */
  readonly inside: Body | null;
  readonly client: Client;
}

/** What a request gets: a lock of its own, a part in the lock of an open body, or a refusal. */
export type Fate = 'own' | 'refused' | Body;

/** What an endpoint's call, and each run of its handler, belong to. */
export interface Endpoint {
  /** Whether it has asked for its lock, and runs with it or without. */
  readonly hasBegun: boolean;
  /** Whether it keeps the lock for what goes on after the endpoint's call. */
  readonly isBusy: boolean;
  /** Its lock may be there. */
  noticeLock(): void;
  /** A run of the handler is about to begin. */
  onRun(run: Call): void;
}

/** A call, from the moment it is made. */
export interface Call extends Request {
  /** When it last asked for a lock, and what it gets. */
  calledAt: number;
  fate: Fate;
  inside: Body | null;
  /** Null for all but endpoints. */
  readonly endpoint: Endpoint | null;
  /** Null until it runs. */
  body: Body | null;
  /** Whether it does without the lock, and what it has failed by then. */
  isWithout: boolean;
  failure?: Error;
}

/** One run of what is locked: what is done in its context, from the moment that it has its lock. */
export class Body {
  readonly call: Call;
  lock!: Lock;
  /** Kept, as a lock whose use is over makes another one. */
  signal!: AbortSignal;
  /** Whose lock this is; null where the body has its own. */
  owner: Body | null = null;
  /** Whether the lock was valid when the body ended. */
  wasHeld = true;
  /** When the lock was first seen to be lost. */
  lostAt = Infinity;
  /** What it has returned or thrown, if it came that far. */
  result?: string;
  error?: Error;
  #hasBegun = false;
  #hasEnded = false;

  constructor(call: Call) {
    this.call = call;
  }

  /** Whether it has its lock still, but for a loss. */
  get isOpen(): boolean {
    const { endpoint, way } = this.call;
    const goesOn = !this.#hasEnded || (isOrigin(way) && endpoint?.isBusy === true);
    return this.#hasBegun && goesOn;
  }

  begin(lock: Lock): void {
    this.#hasBegun = true;
    this.lock = lock;
    this.signal = lock.signal;
    this.owner = typeof this.call.fate === 'string' ? null : this.call.fate;
  }

  end(): void {
    this.wasHeld = this.lock.isValid;
    this.#hasEnded = true;
  }
}

export function isOrigin(way: Way): way is Origin {
  return way === 'literal' || way === 'context' || way === 'arguments';
}

export function nameOf({ client, domain, resources, way }: Request): string {
  const over = client.transport === null ? '' : ` over ${client.transport}`;
  return `${way} of ${resources.join('+')} in the ${domain.label}${over}`;
}
