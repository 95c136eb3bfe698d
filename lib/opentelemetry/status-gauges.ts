// The state at the moment of a collection, read from `status()`: nothing is counted in between.
import { ValueType, type BatchObservableResult, type Meter } from '@opentelemetry/api';

import { inMicrotask } from '../core/environment.js';
import type { NodeStatus } from '../core/lock-node.js';
import type { RedlockStatus } from '../core/redlock.js';
import type { LockRuntime } from '../nest/redlock.module.js';

/** A lock domain whose status is read. */
export interface ObservedDomain {
  readonly name: string;
  readonly runtime: LockRuntime;
}

/** `quarantined`: up, but its votes do not count yet. */
type ObservedState = NodeStatus['state'] | 'quarantined';

const states: readonly ObservedState[] = [
  'up',
  'quarantined',
  'connecting',
  'suspended',
  'down',
  'refused',
];

/**
 * Observes the domains at each collection until the returned function is called, and once more
 * after that: an SDK repeats the last figures, which should be those that a shutdown leaves. Those
 * of the nodes are from before the shutdown: our closed connections say nothing about the nodes.
 */
export function observeStatus(meter: Meter, domains: readonly ObservedDomain[]): () => void {
  const gauges = createGauges(meter);
  const observables = Object.values(gauges);
  const closed = new Set<ObservedDomain>();
  for (const domain of domains) void domain.runtime.closed.then(() => closed.add(domain));
  let isOver = false;
  const observe = (result: BatchObservableResult): void => {
    for (const domain of domains) {
      const status = domain.runtime.redlock.status();
      observeLocks(result, gauges, domain, status);
      if (!closed.has(domain)) observeNodes(result, gauges, domain, status);
    }
    // Not at once: the SDK is just going through its list of callbacks.
    if (isOver) inMicrotask(() => meter.removeBatchObservableCallback(observe, observables));
  };
  meter.addBatchObservableCallback(observe, observables);
  return () => {
    isOver = true;
  };
}

type Gauges = ReturnType<typeof createGauges>;

function createGauges(meter: Meter) {
  const gauge = (name: string, thing: string, description: string) =>
    meter.createObservableUpDownCounter(`nestjs_locked.${name}`, {
      description,
      unit: `{${thing}}`,
      valueType: ValueType.INT,
    });
  return {
    held: gauge('held', 'lock', 'Locks that this process holds.'),
    waiting: gauge('waiting', 'call', 'Calls that wait for a lock or try to get one.'),
    quorum: gauge('quorum', 'node', 'How many nodes have to vote for a lock.'),
    status: gauge('node.status', 'node', '1 for the state that a node is in, 0 for the others.'),
    findings: gauge('node.findings', 'finding', "What is wrong with a node's configuration."),
  };
}

function observeLocks(
  result: BatchObservableResult,
  gauges: Gauges,
  { name }: ObservedDomain,
  { held, waiting, quorum }: RedlockStatus,
): void {
  const domain = { 'nestjs_locked.domain': name };
  result.observe(gauges.held, held, domain);
  result.observe(gauges.waiting, waiting, domain);
  result.observe(gauges.quorum, quorum, domain);
}

function observeNodes(
  result: BatchObservableResult,
  gauges: Gauges,
  { name }: ObservedDomain,
  { nodes }: RedlockStatus,
): void {
  for (const node of nodes) {
    const attributes = { 'nestjs_locked.domain': name, 'nestjs_locked.node.name': node.name };
    result.observe(gauges.findings, node.findings.length, attributes);
    const current = stateOf(node);
    for (const state of states) {
      const value = state === current ? 1 : 0;
      result.observe(gauges.status, value, { ...attributes, 'nestjs_locked.node.state': state });
    }
  }
}

function stateOf({ state, quarantineRemaining }: NodeStatus): ObservedState {
  return state === 'up' && quarantineRemaining > 0 ? 'quarantined' : state;
}
