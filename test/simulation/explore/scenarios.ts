// The scenarios that are played: two or three clients that want one lock or two, for a moment.
import { resolveOptions } from '../../../lib/core/options.js';
import { allFates, noFates, smallFates } from './fates.js';
import type { Fault } from '../fault-plan.js';
import type { ClientPlan, Guarantee, NodePlan, Plan } from '../plan.js';
import type { Step, Task } from '../task-plan.js';
import type { ActFate, Fates } from './fates.js';

/** What happens where nothing is chosen, and what may be chosen. */
export interface Scenario {
  readonly name: string;
  readonly plan: Plan;
  readonly fates: Fates;
  readonly acts: readonly ActFate[];
  /** How many deviations a play has at most where all are played. */
  readonly depth: number;
  /** How much longer than to the nearest node the way to another is, in ms. */
  readonly detour: number;
}

/** What differs from one scenario to another. */
interface Given {
  /** The tasks of each client. */
  readonly clients: readonly (readonly Task[])[];
  readonly resources?: readonly string[];
  /** How far the clocks of the nodes, and of the clients, are ahead, in ms. */
  readonly nodeClocks?: readonly number[];
  readonly clientClocks?: readonly number[];
  /** What is wrong from before the beginning to the end. */
  readonly faults?: readonly Fault[];
  readonly guarantee?: Guarantee;
  /** Answers are told twice. */
  readonly isRepeating?: boolean;
  readonly depth?: number;
  readonly detour?: number;
  readonly fates?: Fates;
  readonly acts?: readonly ActFate[];
}

const TTL = 1_000;

/** Whoever waits for so long, in ms, has to get the lock. */
const PATIENT = 8_000;

const FATES = allFates(TTL, resolveOptions({ ttlMax: TTL }, 3).world.quarantine);

/** When callers begin, in ms: all connections are there. */
const START = 50;

/** From when on something else than the usual may happen, in ms. */
export const CHOICES_FROM = START - 1;

const patient: Step = {
  kind: 'acquire',
  resources: ['a'],
  ttl: TTL,
  wait: PATIENT,
  idle: START,
  hold: 10,
  ending: 'release',
  hasWatchdog: false,
  extendTtl: TTL,
  extendEvery: 50,
  maxHold: 3_600_000,
  holdAtLeast: 0,
  abortAfter: null,
  isFollowed: true,
};
const body: Step = { ...patient, kind: 'using', hasWatchdog: true };
const once: Step = { ...patient, kind: 'try', hold: 400 };
const short: Step = { ...body, ttl: 300 };
const extended: Step = { ...patient, kind: 'extend', extendEvery: 4, ending: 'late' };
const both: Partial<Step> = { resources: ['a', 'b'], hold: 5 };
/** Can give up at any moment, and does so at none of its own. */
const abortable: Partial<Step> = { abortAfter: 1e6, hold: 8 };

/** A step that begins `delay` ms after the first. */
function later(delay: number, step: Step): Step {
  return { ...step, idle: START + delay };
}

/** A step right after another one. */
function then(step: Step): Step {
  return { ...step, idle: 0 };
}

const crash = { kind: 'crashClient', at: 0, client: 0, duration: Infinity } as const;
const closes = [0, 1].map((client) => act({ kind: 'closeClient', at: 0, client }));
const pauses = [0, 1].map((client) =>
  act({ kind: 'pause', at: 0, client, duration: TTL / 2 + 3 }, TTL),
);
const sleeps = [0, 1].map((client) =>
  act({ kind: 'suspend', at: 0, client, duration: 2.5 * TTL }, 3 * TTL),
);
const steps = [600_000, 300, -5_000].map((delta) =>
  act({ kind: 'stepClient', at: 0, client: 0, delta }),
);
const abortions = [0, 1].map((client) => act({ kind: 'giveUp', at: 0, client }));

const unpaused = { fates: { ...FATES, pause: [] } };
const race = { depth: 2, detour: 2, fates: smallFates };
/** Where chance decides, two that draw the same are never told apart. */
const fair = { ...smallFates, random: [] };
const down: Fault = {
  kind: 'crash',
  at: 10,
  node: 0,
  duration: Infinity,
  memory: 'kept',
  lag: 0,
  isSilent: false,
  clockShift: 0,
};
/** Shorter than the play's end tells from a key that nobody ends. */
const stranger: Fault = { kind: 'stranger', at: 10, node: 0, resource: 'a', duration: 1_300 };

const table: Readonly<Record<string, Given>> = {
  basic: { clients: [[[patient]], [[patient]]], acts: pauses },
  queue: { clients: [[[body], [body]], [[later(3, body)]]] },
  rounds: { clients: [[[body, then(body)]], [[patient]]], isRepeating: true },
  expiry: {
    clients: [[[{ ...patient, ttl: 150, hold: 180 }]], [[later(5, { ...patient, ttl: 150 })]]],
  },
  watchdog: { clients: [[[{ ...short, hold: 120 }]], [[later(5, patient)]]] },
  extend: {
    resources: ['a', 'b'],
    clients: [
      [[{ ...extended, ttl: 300, extendTtl: 600, extendEvery: 60, hold: 130 }]],
      [[{ ...extended, resources: ['b'], ttl: 200, extendTtl: 100 }]],
    ],
  },
  several: {
    resources: ['a', 'b'],
    clients: [
      [[{ ...body, ...both }], [{ ...body, resources: ['b'], hold: 5 }]],
      [[{ ...patient, ...both }]],
    ],
  },
  holdAtLeast: {
    clients: [[[{ ...short, hold: 5, holdAtLeast: 60 }], [later(3, short)]], [[later(5, short)]]],
    acts: closes.slice(0, 1),
  },
  close: { clients: [[[body], [later(2, body)]], [[later(4, patient)]]], acts: closes },
  abort: {
    clients: [
      [[{ ...body, ...abortable }], [later(2, { ...body, ...abortable })], [later(3, body)]],
      [[later(1, { ...patient, ...abortable })]],
    ],
    acts: abortions,
  },
  crash: { clients: [[[short], [short]], [[later(4, short)]]], acts: [act(crash, 400)] },
  impatient: {
    clients: [
      [[body], [later(1, { ...body, wait: 3 })], [later(2, body)]],
      [[later(1, { ...patient, wait: 14 })], [later(2, { ...body, wait: 30 })]],
    ],
  },
  nodeAhead: {
    ...unpaused,
    nodeClocks: [60_000, 0, 0],
    clients: [[[patient], [later(20, patient)]], [[later(3, patient)]]],
  },
  nodesApart: {
    ...unpaused,
    nodeClocks: [0, -200, 600],
    clients: [[[patient], [later(20, patient)]], [[later(3, patient)]]],
  },
  clientsOff: {
    ...unpaused,
    clientClocks: [600_000, -400],
    clients: [[[patient, then(patient)]], [[later(3, patient)]]],
  },
  clockSet: {
    clients: [[[{ ...short, hold: 120 }]], [[later(3, short)]]],
    acts: steps,
    fates: noFates,
  },
  asleep: {
    clients: [[[{ ...short, hold: 120 }]], [[later(3, short)]]],
    guarantee: 'suspended',
    acts: sleeps,
    fates: noFates,
  },
  nodeDown: { faults: [down], clients: [[[body], [later(2, body)]], [[later(1, patient)]]] },
  race: { ...race, clients: [[[once]], [[once]]] },
  raceOfThree: { ...race, clients: [[[once]], [[once]], [[once]]] },
  raceNodeDown: { ...race, faults: [down], clients: [[[once]], [[once]]] },
  raceStranger: {
    ...race,
    fates: fair,
    faults: [stranger],
    clients: [[[once]], [[once]], [[once]]],
  },
};

/** All scenarios by name. */
export const scenarios: ReadonlyMap<string, Scenario> = new Map(
  Object.entries(table).map(([name, one]) => [name, scenarioOf(name, one)]),
);

function scenarioOf(name: string, one: Given): Scenario {
  return {
    name,
    plan: planOf(one),
    fates: one.fates ?? FATES,
    acts: one.acts ?? [],
    depth: one.depth ?? 1,
    detour: one.detour ?? 0,
  };
}

function planOf(given: Given): Plan {
  const { clients, resources, nodeClocks, clientClocks, faults } = given;
  const nodes = (nodeClocks ?? [0, 0, 0]).map((clockOffset): NodePlan => ({
    isPersistent: false,
    clockOffset,
    rate: 1.0049,
    distance: 0.4,
  }));
  return {
    seed: 0,
    guarantee: given.guarantee ?? 'sound',
    nodes,
    clients: clients.map((tasks, index): ClientPlan => ({
      wallOffset: clientClocks?.[index] ?? 0,
      rate: 0.9951,
      tasks,
    })),
    resources: resources ?? ['a'],
    ttlMax: TTL,
    driftFactor: 0.01,
    fencing: true,
    quarantine: true,
    stallTimeout: 200,
    delayMax: 1,
    retryDelay: { min: 20, max: 120 },
    isRepeating: given.isRepeating ?? false,
    isNewborn: false,
    faults: faults ?? [],
    healAt: START + PATIENT + 3_000,
  };
}

function act(fault: Fault, excuse = 0): ActFate {
  return { name: JSON.stringify(fault), fault, excuse };
}
