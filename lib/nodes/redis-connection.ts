// One connection to one server, from its birth to its end.
//
// Every answer belongs to the connection that its command was written on: the client below never
// reconnects, each connection is a new object, and what is unanswered when it ends is answered
// here and then, with "nobody knows". A later word from ioredis about it is ignored.
import type { Command, Redis } from 'ioredis';

import { inMicrotask } from '../core/environment.js';
import type { FailedAnswer } from '../core/lock-node.js';
import { TransientMap } from '../core/transient-map.js';
import type { Milliseconds } from '../core/units.js';
import { endClient, resetClient } from './redis-client-end.js';
import type { EncodedCommand } from './redis-command.js';
import { lostOutcome, outcomeOfError, printable, unsentOutcome } from './redis-outcomes.js';

/** Takes a command's reply, or why there is none. */
export type OnReply = (failure: FailedAnswer | null, reply: unknown) => void;

/** Is told how a connection fares: `ready` at most once, `ended` exactly once. */
export interface ConnectionListener {
  ready(connection: RedisConnection): void;
  ended(reason: FailedAnswer): void;
}

/** A written command. Once answered it lets go of its callback: ioredis may keep it for longer. */
class Unanswered {
  #onReply: OnReply | null;

  constructor(
    readonly sentAt: Milliseconds,
    readonly argumentCount: number,
    onReply: OnReply,
  ) {
    this.#onReply = onReply;
  }

  answer(failure: FailedAnswer | null, reply: unknown): void {
    const onReply = this.#onReply;
    this.#onReply = null;
    onReply?.(failure, reply);
  }
}

/** A client for one connection: it calls back once per command, and never before returning. */
export class RedisConnection {
  readonly #client: Redis;
  readonly #Command: typeof Command;
  readonly #clock: () => Milliseconds;
  readonly #listener: ConnectionListener;
  // In the order of writing. In an array, each answer, mostly to the first, would move all others.
  readonly #unanswered = new TransientMap<Unanswered, null>();
  #backlogArguments = 0;
  /** What the server said first, if that was an error, until it has answered anything. */
  #rebuff: FailedAnswer | null = null;
  #hasEnded = false;

  /**
   * `clock`: the clock that {@link silentSince} goes by.
   * @throws TypeError when the client is not one of ioredis but a mock.
   */
  constructor(client: Redis, clock: () => Milliseconds, listener: ConnectionListener) {
    this.#client = client;
    this.#Command = commandClassOf(client);
    this.#clock = clock;
    this.#listener = listener;
    client.on('error', (error: Error) => this.#onError(error));
    client.once('connect', () =>
      client.stream.once('data', (words: Buffer) => this.#onFirstWords(words.toString())),
    );
    client.once('ready', () => {
      if (!this.#hasEnded) listener.ready(this);
    });
    client.once('end', () => this.#onEnd(lostOutcome('connection closed')));
  }

  /** When the oldest unanswered command was written; null when there is none. */
  get silentSince(): Milliseconds | null {
    for (const { sentAt } of this.#unanswered.keys()) return sentAt;
    return null;
  }

  /** How many commands are unanswered. */
  get backlog(): number {
    return this.#unanswered.size;
  }

  /** How many arguments these have together: they cost memory in proportion to that. */
  get backlogArguments(): number {
    return this.#backlogArguments;
  }

  /** Writes a command. On a connection that has ended nothing is sent. */
  call({ name, argumentCount, bytes }: EncodedCommand, onReply: OnReply): void {
    const written = new Unanswered(this.#clock(), argumentCount, onReply);
    if (this.#hasEnded) {
      inMicrotask(() => written.answer(unsentOutcome('connection closed'), null));
      return;
    }
    this.#unanswered.set(written, null);
    this.#backlogArguments += argumentCount;
    const command = new this.#Command(name, [], { replyEncoding: 'utf8' }, (error, reply) =>
      this.#onReply(written, error, reply),
    );
    // What ioredis would encode is written as it is: the same bytes go to other nodes too.
    command.toWritable = () => bytes;
    try {
      const sent = this.#client.sendCommand(command);
      // If the application has wrapped this, as to trace commands, nobody else has that promise.
      if (sent !== command.promise) Promise.resolve(sent).catch(ignore);
    } catch (error) {
      // What has wrapped it may throw, too, and from here that would reach whoever ends a tick: no
      // node after this one would be asked any more.
      const outcome = lostOutcome(`sendCommand threw ${printable(String(error))}`);
      inMicrotask(() => this.#onEnd(outcome));
    }
  }

  /** Ends the connection at once, without a word to the server. */
  end(reason: FailedAnswer): void {
    this.#end(reason, endClient);
  }

  /** As {@link end}, and drops what the server, which is silent, has not received yet. */
  reset(reason: FailedAnswer): void {
    this.#end(reason, resetClient);
  }

  #end(reason: FailedAnswer, close: (client: Redis) => void): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    close(this.#client);
    // First: whoever is answered below must not take this connection for one that works again.
    this.#listener.ended(reason);
    const outcome = lostOutcome(reason.message);
    for (const written of this.#unanswered.keys()) written.answer(outcome, null);
  }

  #onReply(written: Unanswered, error: Error | null | undefined, reply: unknown): void {
    if (this.#hasEnded) return;
    if (error && !isReply(error)) {
      // Not an answer: the client cannot ask, because it has ended or soon will have. When the
      // server ended the stream, the words of ioredis could be read as advice on options.
      const { writable } = this.#client.stream;
      this.#onEnd(writable ? failureOf(error) : lostOutcome('connection closed'));
      return;
    }
    this.#unanswered.delete(written);
    this.#backlogArguments -= written.argumentCount;
    this.#rebuff = null;
    if (error) written.answer(failureOf(error), null);
    else written.answer(null, reply ?? null);
  }

  #onEnd(reason: FailedAnswer): void {
    this.end(this.#rebuff ?? reason);
  }

  // A server that turns everybody away, as for want of room, says why and hangs up. ioredis takes
  // that for the answer to its first command, which mostly is not one that has to succeed.
  #onFirstWords(words: string): void {
    const error = /^-(.+)\r\n$/.exec(words)?.[1];
    if (error !== undefined) this.#rebuff = lostOutcome(printable(withoutArguments(error)));
  }

  #onError(error: Error): void {
    const failure = failureOf(error);
    // An error reply here is one to the greeting: password, user or database were refused. After
    // some of these ioredis would go on, on database 0.
    // Later it may be a surplus reply, and then each answer may have gone to the wrong command.
    if (isReply(error)) this.end(failure);
    else this.#onEnd(failure);
  }
}

// The Command class of the client's own copy of ioredis, which need not be the copy installed here.
// It is that of a command which the client makes for a call.
function commandClassOf(client: Redis): typeof Command {
  const made: Command[] = [];
  const sendCommand = { value: (command: Command) => made.push(command) };
  const probe = Object.create(client, { sendCommand }) as Partial<Redis>;
  void probe.call?.('ping', () => undefined);
  const [command] = made;
  if (command !== undefined) {
    // Nobody sends it: tools that look for leaks would find its promise pending.
    command.resolve(null);
    return command.constructor as typeof Command;
  }
  throw new TypeError(
    'Expected a client of ioredis, got one that makes no commands, as a mock of ioredis does: ' +
      'in tests leave the nodes out (docs/TESTING.md#without-redis of nestjs-locked)',
  );
}

function failureOf(error: Error): FailedAnswer {
  const message = withoutArguments(error.message).trim();
  if (isReply(error)) return outcomeOfError(message);
  // The message of an AggregateError (one per address of a host) is empty.
  return lostOutcome(printable(message) || ('code' in error ? String(error.code) : error.name));
}

// A server repeats the arguments of a command that it does not know: even a password.
function withoutArguments(message: string): string {
  return message.replace(/, with args.*/s, '');
}

// Not by its name: in ioredis 5 that is the name of its class, which a bundler may have changed.
function isReply(error: Error): boolean {
  return 'command' in error;
}

// The callback is told.
function ignore(): void {}
