// What may happen at the points of a play. Few amounts, each just beyond a limit of the protocol.
import type { Fault } from '../fault-plan.js';
import type { Refusal } from '../simulated-server.js';
import type { Fate } from './choices.js';

/** Of a command that is sent. */
export interface CommandFate extends Fate {
  readonly delay: number;
  readonly isCut: boolean;
  /** How much later it arrives by a connection that was cut; null: never. */
  readonly linger: number | null;
}

/** Of an answer. */
export interface ReplyFate extends Fate {
  readonly delay: number;
}

/** Of the server where a command arrives. */
export interface ServerFate extends Fate {
  readonly fault: ServerFault;
  /** The command is run first; its answer is lost where the server crashes. */
  readonly isAfter: boolean;
}

/** What may befall a server; which and when is said by the point. */
export type ServerFault = Unplaced<Extract<Fault, { kind: 'flush' | 'crash' | 'hang' | 'refuse' }>>;

type Unplaced<Placed> = Placed extends unknown ? Omit<Placed, 'at' | 'node'> : never;

/** Of a machine that has just read a clock. */
export interface PauseFate extends Fate {
  readonly duration: number;
}

/** Of a wake-up: how much later it comes, and how often. */
export interface WakeFate extends Fate {
  readonly delays: readonly number[];
}

/** Of a random value. */
export interface RandomFate extends Fate {
  readonly value: number;
}

/** Of a client, after each thing that it does; each of them once. */
export interface ActFate extends Fate {
  readonly fault: Fault;
}

/** All that may happen in the plays of a scenario, but for acts. */
export interface Fates {
  readonly command: readonly CommandFate[];
  readonly reply: readonly ReplyFate[];
  readonly server: readonly ServerFate[];
  readonly pause: readonly PauseFate[];
  readonly wake: readonly WakeFate[];
  readonly random: readonly RandomFate[];
  /** Of the first of several events of one instant. */
  readonly order: readonly Fate[];
}

const CHANCES: Pick<Fates, 'random' | 'order'> = {
  random: [
    { name: 'is low', value: 0, excuse: 0 },
    { name: 'is high', value: 0.999, excuse: 0 },
  ],
  order: [{ name: 'comes last', excuse: 0 }],
};

/** All that the network, the nodes, the machines and chance may do to locks with this `ttl`. */
export function allFates(ttl: number, quarantine: number): Fates {
  const timeout = Math.min(50, ttl / 4) + 8;
  const beyondHalf = ttl / 2 + 3;
  const beyondTtl = ttl + 8;
  const forgotten = quarantine + 150;
  return {
    command: [3, timeout, beyondTtl].map(slow).concat([null, 0, beyondTtl].map(cut)),
    reply: [timeout, beyondHalf, beyondTtl].map(slow),
    server: [
      { name: 'has lost its data', fault: { kind: 'flush' }, isAfter: false, excuse: forgotten },
      { name: 'loses its data then', fault: { kind: 'flush' }, isAfter: true, excuse: forgotten },
      crash('kept', false, forgotten),
      crash('lost', false, forgotten),
      crash('lost', true, forgotten),
      ...[timeout, beyondTtl].map(hang),
      refuse('oom'),
    ],
    pause: [timeout, beyondHalf, beyondTtl].map(pause),
    wake: [
      { name: 'is lost', delays: [], excuse: 0 },
      { name: 'comes twice', delays: [0, 3], excuse: 0 },
      { name: 'is late', delays: [60], excuse: 0 },
    ],
    ...CHANCES,
  };
}

/** What little things may do: nobody need be refused because of them. */
export const smallFates: Fates = {
  ...{ command: [slow(5)], reply: [slow(5)], server: [], pause: [], wake: [] },
  ...CHANCES,
};

/** Nothing but the usual happens. */
export const noFates: Fates = {
  ...{ command: [], reply: [], server: [], pause: [], wake: [], random: [], order: [] },
};

function slow(delay: number): CommandFate {
  return { name: `is ${delay} ms slower`, delay, isCut: false, linger: null, excuse: delay };
}

function cut(linger: number | null): CommandFate {
  const arrival = linger === null ? 'never arrives' : `arrives ${linger} ms later`;
  const excuse = RECONNECT + (linger ?? 0);
  return { name: `is cut off and ${arrival}`, delay: 0, isCut: true, linger, excuse };
}

function crash(memory: 'kept' | 'lost', isAfter: boolean, excuse: number): ServerFate {
  const fault = { kind: 'crash', duration: 20, memory, lag: 0, isSilent: false } as const;
  const name = `crashes ${isAfter ? 'then' : 'before'}, data ${memory}`;
  return { name, fault: { ...fault, clockShift: 0 }, isAfter, excuse };
}

function hang(duration: number): ServerFate {
  const name = `hangs for ${duration} ms`;
  return { name, fault: { kind: 'hang', duration }, isAfter: false, excuse: duration + 300 };
}

function refuse(refusal: Refusal): ServerFate {
  const fault = { kind: 'refuse', duration: 30, refusal } as const;
  return { name: `refuses (${refusal})`, fault, isAfter: false, excuse: 40 + RECONNECT };
}

function pause(duration: number): PauseFate {
  return { name: `stands still for ${duration} ms`, duration, excuse: duration + RECONNECT };
}

/** How soon a client has connected again, in ms. */
const RECONNECT = 60;
