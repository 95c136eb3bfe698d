import { nodeTimeoutOf } from './options.js';
import { medianOf } from './quorum.js';
import type { Ensemble } from './ensemble.js';
import type { InspectAnswer, World } from './lock-node.js';
import type { Milliseconds } from './units.js';

/** What one node knows of a resource. */
export interface NodeResourceState {
  readonly node: string;
  /** `unknown`: the node did not answer, or with an error. */
  readonly state: 'free' | 'held' | 'unknown';
  readonly ownerId: string | null;
  /** What is left of the ttl on that node, in ms; 0 where it is free, unknown or without a ttl. */
  readonly remaining: Milliseconds;
  /** Why it is unknown, or the node would refuse to lock it; empty where neither is so. */
  readonly message: string;
}

/** Who holds a resource, as the nodes saw it a moment ago. Not a lock: it may have changed. */
export interface ResourceState {
  readonly resource: string;
  /**
   * `held`: one owner has it on a quorum of nodes. `free`: a quorum of nodes has no owner for it.
   * `unknown`: neither, because contenders are splitting the vote or too few nodes answered.
   */
  readonly state: 'free' | 'held' | 'unknown';
  readonly ownerId: string | null;
  /** How long, in ms, a quorum of nodes will keep it for its owner, if nobody acts; else 0. */
  readonly remaining: Milliseconds;
  readonly nodes: readonly NodeResourceState[];
}

/** Asks every node who holds `resource`. Resolves when all have answered or the timeout is over. */
export async function inspectResource(
  ensemble: Ensemble,
  resource: string,
): Promise<ResourceState> {
  const answers = await askAll(ensemble, resource);
  const hasQuorum = answers.filter((answer) => answer?.vote === 'found').length >= ensemble.quorum;
  // Also those of nodes that are away, as tokens are proposed by the median of all that are known.
  // Not if too few answer: what was heard before our own clock was set might be the majority then.
  const clocks = ensemble.nodes.map((node) => (hasQuorum ? node.status().clockOffset : null));
  const nodes = ensemble.nodes.map((node, index) => {
    const fault = clockFault(ensemble.options.world, clocks[index] ?? null, clocks);
    return describeNode(node.name, answers[index], fault);
  });
  const free = nodes.filter(({ state }) => state === 'free').length;
  const owner = ownerOf(nodes, ensemble.quorum);
  if (owner !== null) return { resource, state: 'held', ...owner, nodes };
  const state = free >= ensemble.quorum ? 'free' : 'unknown';
  return { resource, state, ownerId: null, remaining: 0, nodes };
}

function askAll(ensemble: Ensemble, resource: string): Promise<(InspectAnswer | null)[]> {
  const { nodes, options, roundTimers } = ensemble;
  return new Promise((resolve) => {
    const answers: (InspectAnswer | null)[] = nodes.map(() => null);
    const finish = (): void => {
      timer.stop();
      resolve(answers);
    };
    const timeout = nodeTimeoutOf(options, options.ttl);
    const timer = roundTimers.start(timeout, finish);
    nodes.forEach((node, index) => {
      node.inspect(options.world, resource, (answer) => {
        answers[index] = answer;
        if (!answers.includes(null)) finish();
      });
    });
  });
}

function describeNode(
  node: string,
  answer: InspectAnswer | null | undefined,
  fault: string,
): NodeResourceState {
  if (answer?.vote !== 'found') {
    const message = answer?.message ?? 'no answer in time';
    return { node, state: 'unknown', ownerId: null, remaining: 0, message };
  }
  const { ownerId, remaining, refusal } = answer;
  const state = ownerId === null ? 'free' : 'held';
  return { node, state, ownerId, remaining: Math.max(0, remaining), message: refusal || fault };
}

// A node accepts tokens within S of its clock, and they are proposed by the clock of most nodes.
function clockFault(
  { fencing, clockSkewMax }: World,
  clock: Milliseconds | null,
  clocks: readonly (Milliseconds | null)[],
): string {
  if (!fencing || clock === null) return '';
  const gap = Math.round(clock - medianOf(clocks.filter((each) => each !== null)));
  if (Math.abs(gap) <= clockSkewMax) return '';
  const distance = `${Math.abs(gap)} ms ${gap > 0 ? 'ahead of' : 'behind'} most others`;
  return `its clock is ${distance}: no fencing token suits all of them`;
}

// The owner that a quorum of nodes names, and for how long a quorum will name it.
function ownerOf(
  nodes: readonly NodeResourceState[],
  quorum: number,
): { ownerId: string; remaining: Milliseconds } | null {
  for (const { ownerId } of nodes) {
    if (ownerId === null) continue;
    const held = nodes.filter((node) => node.ownerId === ownerId);
    const remaining = held.map((node) => node.remaining).sort((a, b) => b - a)[quorum - 1];
    if (remaining !== undefined) return { ownerId, remaining };
  }
  return null;
}
