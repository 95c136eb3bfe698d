// Hears what a server publishes, over a connection of its own that exists only once somebody
// waits: a connection that subscribes takes no other commands. Whatever goes wrong here costs
// time, never safety: whoever waits polls as well.
import type { Redis } from 'ioredis';

import {
  atTickEnd,
  bindToContext,
  inMicrotask,
  type Environment,
  type TimerHandle,
} from '../core/environment.js';
import type { WakeListener } from '../core/lock-node.js';
import type { Milliseconds } from '../core/units.js';
import { ReconnectDelay } from './reconnect-delay.js';
import { endClient } from './redis-client-end.js';
import { isRefusal, outcomeOfError } from './redis-outcomes.js';
import type { RedisTarget } from './redis-target.js';
import { toldIn } from './redis-wake-ups.js';

interface Channel {
  readonly listeners: Set<WakeListener>;
  /** The server has confirmed the subscription, on the connection there is. */
  isLive: boolean;
}

/** How many channels one command names: the answer to it is soon complete on a slow line too. */
const CHANNELS_MAX = 128;

type Wanted = readonly [name: string, channel: Channel];

/** The subscriptions of one process at one server. */
export class RedisSubscriber {
  readonly #target: RedisTarget;
  readonly #environment: Environment;
  readonly #commonChannel: string;
  readonly #stallTimeout: Milliseconds;
  readonly #channels = new Map<string, Channel>();
  /** Channels that began or ended to be wanted in this tick, on a connection that is ready. */
  readonly #changed = new Set<string>();
  readonly #reconnectDelay: ReconnectDelay;
  // While there is neither a client nor a retry, the next to subscribe has a connection made.
  #client: Redis | null = null;
  #retryTimer: TimerHandle = null;
  #isReady = false;
  #isClosed = false;
  /** How many answers the connection owes: to its greeting, and to each subscription. */
  #owed = 0;
  /** Whether there was an answer since the timer was started. It runs while any is owed. */
  #wasAnswered = false;
  #stallTimer: TimerHandle = null;

  /**
   * `commonChannel`: whoever is subscribed to anything is subscribed to this too, so that one look
   * there tells whether anybody listens at all. `stallTimeout`: a connection that owes answers and
   * is silent for longer is replaced by another.
   */
  constructor(
    target: RedisTarget,
    environment: Environment,
    commonChannel: string,
    stallTimeout: Milliseconds,
  ) {
    this.#target = target;
    this.#environment = environment;
    this.#commonChannel = commonChannel;
    this.#stallTimeout = stallTimeout;
    this.#reconnectDelay = new ReconnectDelay(environment);
  }

  /** Whether nobody listens to anything. */
  get isIdle(): boolean {
    return this.#channels.size === 0;
  }

  /** Whether everything published on `channel` from now on is heard here. */
  isLive(channel: string): boolean {
    return this.#channels.get(channel)?.isLive === true;
  }

  /** Tells `listener` what is published on `channel`, until the returned function is called. */
  subscribe(channel: string, listener: WakeListener): () => void {
    const known = this.#channels.get(channel);
    const { listeners } = known ?? this.#add(channel);
    listeners.add(listener);
    if (known?.isLive === true) {
      inMicrotask(() => {
        // By then it may have stopped to listen, or have been told that the connection is lost.
        if (known.isLive && listeners.has(listener)) listener.onLive(true);
      });
    }
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#remove(channel, listeners);
    };
  }

  /**
   * The server was reached anew: what was subscribed on an older connection may be dead, and a
   * retry need not wait any longer.
   */
  renew(): void {
    this.#disconnect();
    if (this.#channels.size > 0) this.#connect();
  }

  /** Ends the connection, for good. */
  close(): void {
    this.#isClosed = true;
    this.#disconnect();
  }

  #add(name: string): Channel {
    const channel: Channel = { listeners: new Set(), isLive: false };
    this.#channels.set(name, channel);
    if (this.#client === null && this.#retryTimer === null) this.#connect();
    this.#tellOf(name);
    return channel;
  }

  #remove(name: string, listeners: ReadonlySet<WakeListener>): void {
    if (this.#channels.get(name)?.listeners !== listeners) return;
    this.#channels.delete(name);
    this.#tellOf(name);
  }

  // When the tick ends: thousands of calls may begin or end to wait in one, and a command for each
  // would hold the process up. A connection that is not ready is told of all channels once it is.
  #tellOf(name: string): void {
    if (!this.#isReady) return;
    if (this.#changed.size === 0) atTickEnd(this.#tell);
    this.#changed.add(name);
  }

  // In the async context of the start, as it names what other calls wait for, too: an application
  // that traces commands would find these names in the trace of one call.
  readonly #tell = bindToContext((): void => {
    const client = this.#client;
    if (client === null) return;
    const wanted: Wanted[] = [];
    const ended = this.isIdle ? [this.#commonChannel] : [];
    for (const name of this.#changed) {
      const channel = this.#channels.get(name);
      if (channel === undefined) ended.push(name);
      else wanted.push([name, channel]);
    }
    this.#changed.clear();
    for (const names of portionsOf(ended)) {
      send(client, 'unsubscribe', names).catch((error: unknown) => this.#onRefused(client, error));
    }
    this.#ask(client, wanted);
  });

  // In the async context of the start: a connection outlives the call that listened first, and
  // must not keep in memory what belongs to that call.
  readonly #connect = bindToContext((): void => {
    if (this.#isClosed) return;
    let client: Redis;
    try {
      client = this.#target.connect();
    } catch {
      // What the application has in its options, as a file that it reads, may be there next time.
      this.#replace();
      return;
    }
    this.#client = client;
    this.#owe();
    client.on('error', ignore);
    client.once('ready', () => {
      if (client !== this.#client) return;
      this.#settle(client);
      this.#isReady = true;
      this.#reconnectDelay.connected();
      this.#ask(client, [...this.#channels]);
    });
    client.on('message', (name: string, message: string) => {
      const listeners = this.#channels.get(name)?.listeners ?? [];
      const told = toldIn(figureIn(message));
      for (const listener of [...listeners]) listener.onWake(told);
    });
    client.once('end', () => {
      if (client === this.#client) this.#replace();
    });
  });

  #replace(): void {
    this.#disconnect();
    // Also when nobody listens just now: the next to listen has to wait no less.
    const connect = (): void => {
      this.#retryTimer = null;
      if (this.#channels.size > 0) this.#connect();
    };
    const delay = this.#reconnectDelay.next();
    this.#retryTimer = this.#environment.startTimer(delay, connect, false);
  }

  // A refusal, as for want of the right to subscribe, leaves the channels as they are: not live.
  #ask(client: Redis, wanted: readonly Wanted[]): void {
    for (const some of portionsOf(wanted)) {
      const onLive = (): void => {
        this.#settle(client);
        for (const [, channel] of some) this.#onLive(client, channel);
      };
      this.#owe();
      const names = [this.#commonChannel, ...some.map(([name]) => name)];
      send(client, 'subscribe', names).then(onLive, (error: unknown) => {
        this.#settle(client);
        this.#onRefused(client, error);
      });
    }
  }

  // Where nobody wants the channel any more, nobody is told.
  #onLive(client: Redis, channel: Channel): void {
    if (client !== this.#client) return;
    channel.isLive = true;
    for (const listener of [...channel.listeners]) listener.onLive(true);
  }

  // After the refusal of a busy server nothing would be heard, or others would count a listener
  // that is gone, for as long as the connection lasts. On the next one all that is wanted is asked
  // for again.
  #onRefused(client: Redis, error: unknown): void {
    const outcome = outcomeOfError(error instanceof Error ? error.message : '');
    const isForATime = isRefusal(outcome) && !outcome.isMisconfiguration;
    if (isForATime && client === this.#client) this.#replace();
  }

  // A server that accepts and never answers, or is gone without a word, is not waited for for ever.
  #owe(): void {
    this.#owed += 1;
    this.#stallTimer ??= this.#startStall();
  }

  #settle(client: Redis): void {
    if (client !== this.#client) return;
    this.#owed -= 1;
    this.#wasAnswered = true;
    if (this.#owed > 0) return;
    this.#environment.stopTimer(this.#stallTimer);
    this.#stallTimer = null;
  }

  #startStall(): TimerHandle {
    this.#wasAnswered = false;
    const onStall = (): void => {
      if (this.#wasAnswered) this.#stallTimer = this.#startStall();
      else this.#replace();
    };
    return this.#environment.startTimer(this.#stallTimeout, onStall, false);
  }

  #disconnect(): void {
    const client = this.#client;
    this.#environment.stopTimer(this.#retryTimer);
    this.#environment.stopTimer(this.#stallTimer);
    this.#client = this.#retryTimer = this.#stallTimer = null;
    this.#isReady = false;
    this.#changed.clear();
    this.#owed = 0;
    if (client !== null) endClient(client);
    for (const channel of this.#channels.values()) {
      if (!channel.isLive) continue;
      channel.isLive = false;
      for (const listener of [...channel.listeners]) listener.onLive(false);
    }
  }
}

// Async, as a client throws where the application has wrapped its sending in something that does.
async function send(
  client: Redis,
  command: 'subscribe' | 'unsubscribe',
  names: readonly string[],
): Promise<void> {
  await client[command](...names);
}

function portionsOf<Each>(all: readonly Each[]): Each[][] {
  const portions: Each[][] = [];
  for (let start = 0; start < all.length; start += CHANNELS_MAX) {
    portions.push(all.slice(start, start + CHANNELS_MAX));
  }
  return portions;
}

// Anybody may publish anything: what is no figure is taken for one process.
function figureIn(message: string): number {
  const figure = Number(message);
  return Number.isSafeInteger(figure) && figure > 0 ? figure : 1;
}

// Nobody waits for it, and polling goes on.
function ignore(): void {}
