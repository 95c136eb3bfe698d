// What a universe is made of, drawn from its seed: all of it data, so that a failing plan can be
// made smaller piece by piece.
import { drawFaults } from './fault-plan.js';
import { drawTasks } from './task-plan.js';
import { Random } from './random.js';
import type { Fault } from './fault-plan.js';
import type { Task } from './task-plan.js';
import type { RetryDelay } from '../../lib/core/options.js';

/**
 * What may be relied on, PROTOCOL.md section 1.
 * - `sound`: all assumptions hold.
 * - `suspended`: machines sleep and their monotonic clocks with them; then two claims may overlap
 *   by as much as the suspend guard tolerates.
 * - `wild`: clocks run and step as they like; claims may overlap.
 */
export type Guarantee = 'sound' | 'suspended' | 'wild';

export interface NodePlan {
  readonly isPersistent: boolean;
  readonly clockOffset: number;
  readonly rate: number;
  /** Added to every delay on the way to it and back, in ms. */
  readonly distance: number;
}

export interface ClientPlan {
  readonly wallOffset: number;
  readonly rate: number;
  readonly tasks: readonly Task[];
}

export interface Plan {
  readonly seed: number;
  readonly guarantee: Guarantee;
  readonly nodes: readonly NodePlan[];
  readonly clients: readonly ClientPlan[];
  readonly resources: readonly string[];
  readonly ttlMax: number;
  readonly driftFactor: number;
  readonly fencing: boolean;
  readonly quarantine: boolean;
  readonly stallTimeout: number;
  readonly delayMax: number;
  readonly retryDelay: RetryDelay;
  readonly isRepeating: boolean;
  /** The cluster is new: no node has a certificate yet. */
  readonly isNewborn: boolean;
  readonly faults: readonly Fault[];
  /** When all faults end. */
  readonly healAt: number;
}

/** The scale of a universe's times. */
interface Scale {
  readonly ttlMax: number;
  readonly activeFor: number;
}

export function drawPlan(seed: number): Plan {
  const random = new Random(seed, 1);
  const nodeCount = random.pick([1, 2, 3, 3, 3, 3, 4, 5, 5]);
  const guarantee = drawGuarantee(random);
  const { ttlMax, activeFor } = drawScale(random);
  const isLong = ttlMax > activeFor;
  const driftFactor = 0.01;
  const quarantine = nodeCount >= 3 || random.chance(0.5);
  const clockSkewMax = Math.floor(Math.min(2_000, ttlMax / 3));
  const resources = ['a', 'b', 'c'].slice(0, random.pick([1, 1, 2, 3]));
  const clientCount = random.pick([2, 2, 3, 3, 4]);
  const context = { ttlMax, activeFor, clockSkewMax, driftFactor, guarantee, quarantine };
  const drawnNodes = Array.from({ length: nodeCount }, () => drawNode(random, context));
  // Callers that extend at once, a node far away, and links that break: late answers meet
  // extensions.
  const isHasty = !isLong && random.chance(0.1);
  const nodes = isHasty ? drawnNodes.map(farIfFirst) : drawnNodes;
  // Of its own stream: links that break under commands, and nothing else that goes wrong.
  const isBreaking = isHasty || (isLong && new Random(seed, 3).chance(0.4));
  const isCrowded = new Random(seed, 4).chance(0.25);
  const clients = Array.from({ length: clientCount }, (_, index) => ({
    wallOffset: random.chance(0.2)
      ? random.between(-3_600_000, 3_600_000)
      : random.between(-clockSkewMax / 4, clockSkewMax / 4),
    rate: drawRate(random, context),
    tasks: drawTasks(new Random(seed, 100 + index), {
      ...{ resources, ttlMax, activeFor, isHasty, isCrowded },
    }),
  }));
  return {
    seed,
    guarantee,
    nodes,
    clients,
    resources,
    ttlMax,
    driftFactor,
    fencing: random.chance(0.85),
    quarantine,
    stallTimeout: random.integer(200, 800),
    delayMax: random.pick([0.5, 2, 10]),
    isRepeating: random.chance(0.1),
    retryDelay: random.pick(isLong ? [{ min: 50, max: 600 }] : [DELAY, { min: 50, max: 300 }]),
    isNewborn: quarantine && !isLong && random.chance(0.1),
    faults: drawFaults(new Random(seed, 2), { ...context, nodes, clientCount, isBreaking }),
    healAt: activeFor,
  };
}

/** What nodes, clients and faults are drawn within. */
export interface DrawContext extends Scale {
  readonly clockSkewMax: number;
  readonly driftFactor: number;
  readonly guarantee: Guarantee;
  readonly quarantine: boolean;
}

/** Rates of two clocks that differ by no more than `driftFactor` allows. */
export function drawRate(random: Random, { driftFactor, guarantee }: DrawContext): number {
  const bound = guarantee === 'wild' ? 0.2 : driftFactor / (2 - driftFactor);
  // Half of the clocks run at the very edge.
  const deviation = random.chance(0.5) ? random.pick([-1, 1]) : random.between(-1, 1);
  return 1 + deviation * bound * 0.999;
}

function drawNode(random: Random, context: DrawContext): NodePlan {
  const { clockSkewMax } = context;
  return {
    isPersistent: random.chance(0.15),
    clockOffset: random.between(-clockSkewMax / 8, clockSkewMax / 8),
    rate: drawRate(random, context),
    distance: random.chance(0.2) ? random.between(3, 20) : 0,
  };
}

function farIfFirst(node: NodePlan, index: number): NodePlan {
  return index === 0 ? { ...node, distance: Math.max(8, node.distance) } : node;
}

function drawGuarantee(random: Random): Guarantee {
  const draw = random.next();
  if (draw < 0.84) return 'sound';
  return draw < 0.92 ? 'suspended' : 'wild';
}

// Some have locks that live far longer than anything else lasts: only there a key that nobody
// deletes can be told from one that expires.
function drawScale(random: Random): Scale {
  if (random.chance(0.2)) return { ttlMax: random.integer(4_000, 30_000), activeFor: 2_500 };
  const ttlMax = random.integer(200, 1_000);
  return { ttlMax, activeFor: Math.ceil(ttlMax * random.between(2.5, 5)) };
}

/** The library's own. */
const DELAY: RetryDelay = { min: 20, max: 120 };
