// Keeps one server connected: connects, audits, watches for silence, connects anew.
import { bindToContext, type Environment, type TimerHandle } from '../core/environment.js';
import { RESOURCES_AT_ONCE_MAX } from '../core/first-attempts.js';
import type { FailedAnswer, World } from '../core/lock-node.js';
import type { Milliseconds } from '../core/units.js';
import type { NodeHealth } from './node-health.js';
import { ReconnectDelay } from './reconnect-delay.js';
import {
  disagreement,
  factsOf,
  auditServer,
  LastServer,
  type ClockReading,
  type NodePeers,
} from './redis-audit.js';
import type { SendCommand } from './redis-batch.js';
import { encodeCommand, type EncodedCommand } from './redis-command.js';
import { RedisConnection, type ConnectionListener } from './redis-connection.js';
import { isReadOnly, lostOutcome, printable, unsentOutcome } from './redis-outcomes.js';
import { readCertified, type Certified } from './redis-replies.js';
import { certifyArguments } from './redis-script-arguments.js';
import { scriptsOf, type RedisScripts } from './redis-scripts.js';
import type { RedisTarget } from './redis-target.js';

/** What a link needs to know. */
export interface LinkSettings {
  readonly target: RedisTarget;
  readonly isPersistent: boolean;
  readonly world: World;
  /** A command unanswered for twice as long suspends the node: nothing more is sent. */
  readonly nodeTimeout: Milliseconds;
  /** A command, or a greeting, unanswered for longer ends the connection. */
  readonly stallTimeout: Milliseconds;
  readonly environment: Environment;
  readonly health: NodeHealth;
  readonly peers: NodePeers;
  /** The connection takes commands, for the first time or again; called before any other may. */
  readonly onUsable: (connection: RedisConnection) => void;
}

/** A server as it is reached now: by one connection at a time, or not at all. */
export class RedisLink implements ConnectionListener {
  readonly #settings: LinkSettings;
  readonly #scripts: RedisScripts;
  readonly #reconnectDelay: ReconnectDelay;
  readonly #lastServer = new LastServer();
  #connection: RedisConnection | null = null;
  #isClosed = false;
  // One at a time: for the next look at the connection, or until the next attempt to connect.
  #timer: TimerHandle = null;
  /** How many looks there were at the server since its last answer, and when the last one was. */
  #looksInVain = 0;
  #lookedAt: Milliseconds = 0;
  // The time that silence is measured by. By the clock, a pause of this process or of its machine
  // would be the server's silence. A look that is late counts as one that came on time.
  #listeningTime: Milliseconds = 0;
  /** Since when, by that time, the connection is being made; null once it is audited. */
  #connectingSince: Milliseconds | null = null;

  constructor(settings: LinkSettings) {
    this.#settings = settings;
    this.#scripts = scriptsOf(settings.world, settings.isPersistent);
    this.#reconnectDelay = new ReconnectDelay(settings.environment);
    this.#connect();
  }

  /** The connection, if commands may be sent now. */
  usable(): RedisConnection | null {
    return this.#settings.health.state === 'up' ? this.#connection : null;
  }

  /** Sends a command, and looks after the answer. */
  readonly send: SendCommand = (connection, command, onReply) => {
    connection.call(command, (failure, reply) => {
      onReply(failure, reply);
      this.#onAnswer(connection, failure);
    });
    this.#timer ??= this.#startWatch();
  };

  /** Asks for the certificate again: if the node was emptied meanwhile, its quarantine begins. */
  certify(connection: RedisConnection): void {
    const { health } = this.#settings;
    this.send(connection, this.#certification(), (failure, reply) => {
      const certified = failure === null ? readCertified(reply) : null;
      if (certified === null) return;
      health.noteTime(certified.nodeTime);
      health.noteQuarantine(certified.quarantineRemaining);
    });
  }

  /** Sends what was written before, waits for the answers (at most the `nodeTimeout`), and ends. */
  async close(): Promise<void> {
    const { environment, health, nodeTimeout } = this.#settings;
    const connection = this.usable();
    this.#isClosed = true;
    health.close();
    if (connection !== null) {
      await new Promise<void>((resolve) => {
        const timer = environment.startTimer(nodeTimeout, resolve, true);
        connection.call(encodeCommand('quit'), () => {
          environment.stopTimer(timer);
          resolve();
        });
      });
    }
    this.#connection?.end(lostOutcome('closed'));
    environment.stopTimer(this.#timer);
  }

  /** @internal Called by the connection. */
  ready(connection: RedisConnection): void {
    const { environment, target } = this.#settings;
    const askedAt = environment.now();
    let certified: Certified | null = null;
    let clock: ClockReading = { offset: 0, monotonicOffset: 0, error: Infinity };
    // First and alone: the node's quarantine begins when it is seen, not when it is asked to vote.
    connection.call(this.#certification(), (failure, reply) => {
      certified = failure === null ? readCertified(reply) : null;
      if (certified === null) {
        connection.end(failure ?? lostOutcome(`${target.name} sent an unexpected reply`));
        return;
      }
      const now = environment.now();
      const error = (now - askedAt) / 2;
      const nodeNow = certified.nodeTime / 1_000 + error;
      const offset = nodeNow - environment.wallClock();
      clock = { offset, monotonicOffset: nodeNow - now, error };
    });
    // Where loading is not allowed, the first use of a script is answered with NOSCRIPT.
    const { acquire, extend, release, batch } = this.#scripts;
    for (const { text } of [acquire, extend, release, batch]) {
      connection.call(encodeCommand('script', ['load', text]), () => undefined);
    }
    connection.call(encodeCommand('info'), (failure, reply) => {
      if (certified === null) return;
      if (failure !== null && !failure.isMisconfiguration) connection.end(failure);
      else this.#audit(connection, certified, clock, typeof reply === 'string' ? reply : null);
    });
  }

  /** @internal Called by the connection. */
  ended(reason: FailedAnswer): void {
    const { environment, health, peers, target } = this.#settings;
    environment.stopTimer(this.#timer);
    this.#connection = null;
    peers.leave(target.name);
    if (this.#isClosed) return;
    health.noteFailure(reason);
    this.#timer = environment.startTimer(this.#reconnectDelay.next(), this.#reconnect, false);
  }

  // What the application has in its options may throw, as where it reads a file. From a timer that
  // would end the process; the first time, whoever makes the nodes is told.
  readonly #reconnect = (): void => {
    try {
      this.#connect();
    } catch (error) {
      this.ended(unsentOutcome(printable(String(error))));
    }
  };

  // Sent as text: it is used too rarely for the server to keep it.
  #certification(): EncodedCommand {
    const { peers, world } = this.#settings;
    const args = certifyArguments(world, peers.nodeCount);
    return encodeCommand('eval', [this.#scripts.certify.text, ...args]);
  }

  // In the async context of the start, as the watch is: a connection outlives the call whose
  // silence ended the last one, and must not keep in memory what belongs to that call.
  readonly #connect = bindToContext((): void => {
    // Silence begins with the next look, because whole intervals between looks are counted.
    const clock = (): Milliseconds => this.#listeningTime + LOOK_INTERVAL;
    this.#connection = new RedisConnection(this.#settings.target.connect(), clock, this);
    this.#connectingSince = clock();
    this.#timer = this.#startWatch();
  });

  #audit(
    connection: RedisConnection,
    certified: Certified,
    clock: ClockReading,
    info: string | null,
  ): void {
    const { environment, health, isPersistent, onUsable, peers, target, world } = this.#settings;
    const facts = factsOf(info);
    const node = { name: target.name, isPersistent };
    const { refusal, findings } = auditServer(node, facts, clock, peers, world);
    if (refusal !== null) {
      connection.end(unsentOutcome(refusal, true));
      return;
    }
    this.#connectingSince = null;
    this.#looksInVain = 0;
    this.#reconnectDelay.connected();
    onUsable(connection);
    health.noteTime(certified.nodeTime);
    health.noteUp([
      ...findings,
      ...this.#lastServer.next(facts, environment.wallClock()),
      ...disagreement(certified.rulesBefore, world, peers.nodeCount),
      ...(certified.isOriginKnown ? [] : [ORIGIN_UNKNOWN]),
      ...(target.isUnverified ? [UNVERIFIED] : []),
    ]);
    health.noteQuarantine(certified.quarantineRemaining);
  }

  #onAnswer(connection: RedisConnection, failure: FailedAnswer | null): void {
    // Else it is no answer: the connection has ended.
    if (connection !== this.#connection) return;
    const { environment, health, onUsable } = this.#settings;
    this.#looksInVain = 0;
    this.#lastServer.seen(environment.wallClock());
    if (failure !== null && isReadOnly(failure)) connection.end(failure);
    if (health.state !== 'suspended' || this.#isHung(connection)) return;
    onUsable(connection);
    health.noteResumption();
  }

  // With a large backlog a server is found hung sooner, before it costs memory for each lock.
  #isHung({ backlogArguments, silentSince }: RedisConnection): boolean {
    if (backlogArguments > BACKLOG_ARGUMENTS_MAX && this.#looksInVain >= 3) return true;
    const limit = 2 * this.#settings.nodeTimeout;
    return silentSince !== null && this.#listeningTime - silentSince > limit;
  }

  #startWatch(): TimerHandle {
    this.#lookedAt = this.#settings.environment.now();
    return this.#settings.environment.startTimer(LOOK_INTERVAL, this.#watch, false);
  }

  // One timer while commands are unanswered, not one for each.
  readonly #watch = bindToContext((): void => {
    const connection = this.#connection;
    this.#timer = null;
    const since = this.#connectingSince ?? connection?.silentSince ?? null;
    if (connection === null || since === null) return;
    const { environment, health, stallTimeout } = this.#settings;
    // A late look says more about this process, which did not listen, than about the server.
    const isLate = environment.now() - this.#lookedAt > LOOK_INTERVAL + LATENESS_MAX;
    this.#looksInVain = isLate ? 0 : this.#looksInVain + 1;
    this.#listeningTime += LOOK_INTERVAL;
    const silence = this.#listeningTime - since;
    if (silence >= stallTimeout) {
      if (this.#connectingSince === null) connection.reset(lostOutcome(`silent for ${silence} ms`));
      else connection.end(lostOutcome(`not connected and audited within ${stallTimeout} ms`));
      return;
    }
    if (this.#isHung(connection)) health.noteSuspension(silence, connection.backlog);
    this.#timer = this.#startWatch();
  });
}

const ORIGIN_UNKNOWN =
  'INFO is denied inside scripts: a restart from an old snapshot or a failover goes unnoticed. ' +
  'Grant +info.';

const UNVERIFIED =
  'Its certificate is not verified: anybody on the way may answer for it. ' +
  'Give its CA certificate as tls.ca, and leave rejectUnauthorized and ' +
  'NODE_TLS_REJECT_UNAUTHORIZED as they are.';

/** The time between two looks at a server that owes answers. */
const LOOK_INTERVAL: Milliseconds = 30;

/** By how much a timer may be late in a process that is not blocked. */
const LATENESS_MAX: Milliseconds = 10;

/**
 * Arguments of all unanswered commands together; a lone lock has some 10, a call of 128 some 135.
 * A live server that is far away owes those of all first attempts that are under way, and of as
 * many releases.
 */
const BACKLOG_ARGUMENTS_MAX = 3 * RESOURCES_AT_ONCE_MAX;
