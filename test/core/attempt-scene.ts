// One attempt by itself: nodes answer it as a test says.
import { jest } from '@jest/globals';

import { Attempt } from '../../lib/core/attempt.js';
import { TokenSource } from '../../lib/core/fencing.js';
import { Holding } from '../../lib/core/holding.js';
import { resolveOptions } from '../../lib/core/options.js';
import { TestNode } from '../support/test-node.js';
import { SimulatedEnvironment } from '../support/simulated-environment.js';
import { ensembleOf } from './scene.js';
import type { AttemptResult, FailedAttempt } from '../../lib/core/attempt.js';

export const ownerId = 'this attempt';
export const ttl = 10_000;
export const timeout = 500;

export type Behaviour =
  'grants' | 'is taken' | 'is stale' | 'is quarantined' | 'is down' | 'loses the answer';

export const behaviours: readonly Behaviour[] = [
  'grants',
  'is taken',
  'is stale',
  'is quarantined',
  'is down',
  'loses the answer',
];

/** One of each kind that an attempt treats alike: quorum.spec.ts tries all votes of 5 nodes. */
export const fewBehaviours: readonly Behaviour[] = [
  'grants',
  'is taken',
  'is quarantined',
  'loses the answer',
];

export type Verdict = 'granted' | FailedAttempt['verdict'] | 'none yet';

export interface Trial {
  readonly environment: SimulatedEnvironment;
  readonly nodes: readonly TestNode[];
  readonly attempt: Attempt;
  readonly onSettled: jest.Mock<(result: AttemptResult) => void>;
  result(): AttemptResult | undefined;
  verdict(): Verdict;
  owners(): Promise<(string | null)[]>;
}

export function prepare(nodeCount: number): Trial {
  const environment = new SimulatedEnvironment();
  const nodes = Array.from(
    { length: nodeCount },
    (_, index) => new TestNode(environment, `node-${index}`),
  );
  const ensemble = ensembleOf(environment, nodes);
  const tokens = new TokenSource(ensemble);
  const request = {
    world: ensemble.options.world,
    resources: ['r'],
    ownerId,
    token: tokens.propose(0, false),
    ttl,
  };
  const onSettled = jest.fn<(result: AttemptResult) => void>();
  const result = (): AttemptResult | undefined => onSettled.mock.calls[0]?.[0];
  return {
    environment,
    nodes,
    attempt: new Attempt(ensemble, tokens, request, onSettled),
    onSettled,
    result,
    verdict: () => verdictOf(result()),
    owners: () => Promise.all(nodes.map((node) => node.ownerOf('r'))),
  };
}

export function verdictOf(result: AttemptResult | undefined): Verdict {
  if (result instanceof Holding) return 'granted';
  return result?.verdict ?? 'none yet';
}

export function releases(trial: Trial): number[] {
  return trial.nodes.map((node) => node.count('release'));
}

export function arrange(trial: Trial, node: TestNode, behaviour: Behaviour): void {
  const { world } = resolveOptions({}, trial.nodes.length);
  if (behaviour === 'is taken') node.occupy('r', 60_000);
  if (behaviour === 'is stale') {
    const later = (trial.environment.wallClock() + 1_000) * 1_000;
    node.recordToken(world, 'r', Math.floor(later));
  }
  if (behaviour === 'is quarantined') node.fail('quarantined');
  if (behaviour === 'is down') node.refuse('acquire');
  if (behaviour === 'loses the answer') node.fail('answerLost', 'acquire');
}

/** Every way in which `nodeCount` nodes may behave. */
export function* casts(
  nodeCount: number,
  parts: readonly Behaviour[],
): Generator<readonly Behaviour[]> {
  if (nodeCount === 0) {
    yield [];
    return;
  }
  for (const rest of casts(nodeCount - 1, parts)) {
    for (const behaviour of parts) yield [...rest, behaviour];
  }
}

/** Plays one cast; a description of what is wrong, or nothing. */
export async function play(
  cast: readonly Behaviour[],
  delays: readonly number[],
): Promise<string[]> {
  const trial = prepare(cast.length);
  cast.forEach((behaviour, index) => {
    const node = trial.nodes[index];
    if (node === undefined) return;
    arrange(trial, node, behaviour);
    node.delay({ answer: delays[index] ?? 0 });
  });
  trial.attempt.start(timeout);
  await trial.environment.advance(timeout);
  const verdict = trial.verdict();
  const isWon = 2 * cast.filter((behaviour) => behaviour === 'grants').length > cast.length;
  await trial.environment.advance(timeout);
  const owners = await trial.owners();
  const wrong: string[] = [];
  if (trial.onSettled.mock.calls.length !== 1) wrong.push('did not settle once');
  if ((verdict === 'granted') !== isWon) wrong.push(`came to ${verdict}`);
  if (trial.environment.pendingTimers > 0) wrong.push('left a timer');
  const keys = owners.filter((owner) => owner === ownerId).length;
  if (!isWon && keys > 0) wrong.push(`left ${keys} keys`);
  if (isWon && 2 * keys <= cast.length) wrong.push('lost keys');
  return wrong.map((what) => `${cast.join(', ')}: ${what}`);
}
