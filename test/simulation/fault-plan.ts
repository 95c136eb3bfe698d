import { drawRate } from './plan.js';
import type { DrawContext, NodePlan } from './plan.js';
import type { Random } from './random.js';
import type { Memory, Refusal } from './simulated-server.js';

/** One thing that goes wrong. Times are true ms; `at` is when it begins. */
export type Fault =
  | { readonly kind: 'hang'; at: number; node: number; duration: number }
  | {
      readonly kind: 'crash';
      at: number;
      node: number;
      duration: number;
      memory: Memory;
      /** How old the snapshot is, or how far the replica lags. */
      lag: number;
      /** The machine goes without a word: clients learn of it by silence. */
      isSilent: boolean;
      /** The new machine's clock minus the old one's. */
      clockShift: number;
    }
  | { readonly kind: 'flush'; at: number; node: number }
  | { readonly kind: 'refuse'; at: number; node: number; duration: number; refusal: Refusal }
  | {
      readonly kind: 'partition';
      at: number;
      node: number;
      client: number;
      duration: number;
      direction: 'both' | 'commands' | 'replies';
    }
  | { readonly kind: 'isolate'; at: number; client: number; duration: number }
  | {
      readonly kind: 'slow';
      at: number;
      node: number;
      client: number;
      duration: number;
      delay: number;
    }
  | {
      readonly kind: 'repeat';
      at: number;
      node: number;
      client: number;
      duration: number;
      delay: number;
    }
  | { readonly kind: 'reset'; at: number; node: number; client: number }
  | {
      /** Links of a client fail when it has just sent its `command`-th command. */
      readonly kind: 'cutAtCommand';
      at: 0;
      client: number;
      command: number;
      nodes: readonly number[];
      effect: 'reset' | 'both' | 'commands' | 'replies';
      duration: number;
    }
  | { readonly kind: 'pause'; at: number; client: number; duration: number }
  | { readonly kind: 'pauseAtRead'; at: 0; client: number; read: number; duration: number }
  | { readonly kind: 'pauseAtCommand'; at: 0; client: number; command: number; duration: number }
  | { readonly kind: 'suspend'; at: number; client: number; duration: number }
  | { readonly kind: 'crashClient'; at: number; client: number; duration: number }
  | { readonly kind: 'closeClient'; at: number; client: number }
  /** Its callers give up what they wait for, those that can. */
  | { readonly kind: 'giveUp'; at: number; client: number }
  /** Somebody who is gone has left a key. */
  | { readonly kind: 'stranger'; at: number; node: number; resource: string; duration: number }
  | { readonly kind: 'stepClient'; at: number; client: number; delta: number }
  | { readonly kind: 'stepNode'; at: number; node: number; delta: number }
  | { readonly kind: 'driftNode'; at: number; node: number; rate: number };

interface FaultContext extends DrawContext {
  readonly nodes: readonly NodePlan[];
  readonly clientCount: number;
  readonly isBreaking: boolean;
}

type Draw = (random: Random, context: FaultContext, at: number) => Fault;

/** Draws what goes wrong in one universe; nothing in some. */
export function drawFaults(random: Random, context: FaultContext): Fault[] {
  if (random.chance(0.08)) return [];
  const count = random.integer(1, random.pick([4, 10, 18]));
  // A universe has a few kinds of faults, and then many of each: they meet sooner.
  const kinds = context.isBreaking
    ? [cutAtCommand]
    : Array.from({ length: random.integer(2, 6) }, () => drawKind(random, context));
  const faults = Array.from({ length: count }, () => {
    const at = random.between(0, context.activeFor);
    return random.pick(kinds)(random, context, at);
  });
  return faults.filter((fault) => isAllowed(fault, context)).sort((a, b) => a.at - b.at);
}

// What the assumptions exclude: PROTOCOL.md section 1. Without quarantine nothing is promised
// about lost data, nor by a node that is declared persistent and is not.
function isAllowed(fault: Fault, { nodes, quarantine, guarantee }: FaultContext): boolean {
  // The suspend guard compares a machine's two clocks: a step back would hide a sleep.
  if (fault.kind === 'stepClient') return guarantee !== 'suspended';
  const forgets = fault.kind === 'flush' || (fault.kind === 'crash' && fault.memory !== 'kept');
  if (!forgets) return true;
  if (nodes[fault.node]?.isPersistent === true) return false;
  return quarantine;
}

function drawKind(random: Random, { guarantee }: FaultContext): Draw {
  const special = { sound: [], suspended: [suspend, suspend], wild: [wildStep, wildDrift] };
  return random.pick([...ordinary, ...ordinary, ...special[guarantee], ...special[guarantee]]);
}

const node = (random: Random, { nodes }: FaultContext): number =>
  random.integer(0, nodes.length - 1);

const client = (random: Random, { clientCount }: FaultContext): number =>
  random.integer(0, clientCount - 1);

/** Mostly as short as a node timeout, sometimes as long as a lock, seldom longer. */
const duration = (random: Random, { ttlMax }: FaultContext): number =>
  random.chance(0.4)
    ? random.between(1, 120)
    : random.next() ** 1.5 * Math.min(2_500, ttlMax * 1.8);

const link = (random: Random, context: FaultContext): { node: number; client: number } => ({
  node: node(random, context),
  client: client(random, context),
});

const crash: Draw = (random, context, at) => {
  const which = node(random, context);
  const isPersistent = context.nodes[which]?.isPersistent === true;
  const memory = isPersistent
    ? 'kept'
    : random.pick<Memory>(['kept', 'lost', 'lost', 'snapshot', 'snapshot', 'replica', 'replica']);
  return {
    kind: 'crash',
    at,
    node: which,
    duration: random.chance(0.5) ? random.between(1, 30) : duration(random, context),
    memory,
    lag: random.next() ** 2 * (memory === 'replica' ? 100 : context.activeFor),
    isSilent: random.chance(0.3),
    clockShift: memory === 'replica' ? random.between(-1, 1) * (context.clockSkewMax / 8) : 0,
  };
};

const suspend: Draw = (random, context, at) => ({
  kind: 'suspend',
  at,
  client: client(random, context),
  duration: random.next() * Math.min(8_000, context.ttlMax * 2) + 50,
});

const wildStep: Draw = (random, context, at) => ({
  kind: 'stepNode',
  at,
  node: node(random, context),
  delta: random.between(-context.clockSkewMax, 3 * context.clockSkewMax),
});

const wildDrift: Draw = (random, context, at) => ({
  kind: 'driftNode',
  at,
  node: node(random, context),
  rate: drawRate(random, context),
});

const cutAtCommand: Draw = (random, context) => ({
  kind: 'cutAtCommand',
  at: 0,
  client: client(random, context),
  command: random.integer(1, random.pick([40, 400])),
  nodes: context.nodes.map((_, index) => index).filter(() => random.chance(0.6)),
  effect: random.pick(['reset', 'reset', 'both', 'commands', 'replies']),
  duration: duration(random, context),
});

const ordinary: readonly Draw[] = [
  crash,
  crash,
  crash,
  (random, context, at) => ({
    kind: 'hang',
    at,
    node: node(random, context),
    duration: duration(random, context),
  }),
  (random, context, at) => ({ kind: 'flush', at, node: node(random, context) }),
  (random, context, at) => ({
    kind: 'refuse',
    at,
    node: node(random, context),
    duration: duration(random, context),
    refusal: random.pick<Refusal>(['oom', 'readonly', 'odd', 'odd', 'denied']),
  }),
  (random, context, at) => ({
    kind: 'partition',
    at,
    ...link(random, context),
    duration: duration(random, context),
    direction: random.pick(['both', 'commands', 'replies']),
  }),
  (random, context, at) => ({
    kind: 'isolate',
    at,
    client: client(random, context),
    duration: duration(random, context),
  }),
  (random, context, at) => ({
    kind: 'slow',
    at,
    ...link(random, context),
    duration: duration(random, context),
    delay: random.next() * (random.chance(0.3) ? Math.min(800, context.ttlMax) : 80),
  }),
  (random, context, at) => ({
    kind: 'repeat',
    at,
    ...link(random, context),
    duration: duration(random, context),
    delay: random.next() ** 2 * Math.min(3_000, context.ttlMax * 2),
  }),
  (random, context, at) => ({ kind: 'reset', at, ...link(random, context) }),
  (random, context, at) => ({ kind: 'reset', at, ...link(random, context) }),
  cutAtCommand,
  cutAtCommand,
  (random, context) => ({
    kind: 'pauseAtCommand',
    at: 0,
    client: client(random, context),
    command: random.integer(1, random.pick([40, 400])),
    duration: duration(random, context),
  }),
  (random, context, at) => ({
    kind: 'pause',
    at,
    client: client(random, context),
    duration: duration(random, context),
  }),
  (random, context) => ({
    kind: 'pauseAtRead',
    at: 0,
    client: client(random, context),
    read: random.integer(1, 400),
    duration: duration(random, context),
  }),
  (random, context, at) => ({
    kind: 'crashClient',
    at,
    client: client(random, context),
    duration: duration(random, context),
  }),
  (random, context, at) => ({ kind: 'closeClient', at, client: client(random, context) }),
  (random, context, at) => ({
    kind: 'stepClient',
    at,
    client: client(random, context),
    delta: random.chance(0.5) ? random.between(-1, 1) * 3_600_000 : random.between(-1, 1) * 900,
  }),
  (random, context, at) => ({
    kind: 'stepNode',
    at,
    node: node(random, context),
    delta: -random.next() * (context.clockSkewMax / 12),
  }),
  (random, context, at) => ({
    kind: 'driftNode',
    at,
    node: node(random, context),
    rate: drawRate(random, context),
  }),
];
