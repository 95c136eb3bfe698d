// Makes planned faults happen, and ends them.
import { setTimeout as sleep } from 'node:timers/promises';

import { describeFault, type PlannedFault } from './fault-plan.js';
import type { FaultKind } from './fault-table.js';
import type { NetworkPath } from './network-path.js';
import type { TortureNode } from './torture-node.js';
import type { WorkerProcess } from './worker-process.js';

/** What can be hit. */
export interface Battlefield {
  readonly nodes: readonly TortureNode[];
  /** By worker, then by node. */
  readonly paths: readonly (readonly NetworkPath[])[];
  /** Replaced by another process when one is killed. */
  worker(index: number): WorkerProcess;
  revive(index: number): Promise<void>;
}

/** What a fault hits. */
interface Target {
  readonly field: Battlefield;
  readonly fault: PlannedFault;
  readonly node: TortureNode;
  readonly path: NetworkPath;
  readonly worker: WorkerProcess;
}

/** Begins a fault; what it resolves to ends it. */
type Injection = (target: Target) => Promise<End> | End;
type End = () => unknown;

/** Runs the faults of a round; resolves when the last one has ended. */
export async function runRound(field: Battlefield, faults: readonly PlannedFault[]): Promise<void> {
  const startedAt = performance.now();
  const untilOffset = (offset: number): Promise<unknown> =>
    sleep(Math.max(0, startedAt + offset - performance.now()));
  const runs = faults.map(async (fault) => {
    await untilOffset(fault.from);
    try {
      const end = await injections[fault.kind](targetOf(field, fault));
      await untilOffset(fault.until);
      await end();
    } catch (error) {
      throw new Error(`The fault could not be made: ${describeFault(fault)}`, { cause: error });
    }
  });
  const failure = (await Promise.allSettled(runs)).find(({ status }) => status === 'rejected');
  if (failure?.status === 'rejected') throw failure.reason;
  await Promise.all(field.nodes.map((node) => node.whenHealthy()));
}

function targetOf(field: Battlefield, fault: PlannedFault): Target {
  const node = field.nodes[fault.node];
  const path = field.paths[fault.worker]?.[fault.node];
  if (node === undefined || path === undefined) throw new Error('There is no such target');
  return { field, fault, node, path, worker: field.worker(fault.worker) };
}

const injections: Record<FaultKind, Injection> = {
  restart: ({ node }) => {
    node.server.kill();
    return () => node.restart('nothing');
  },
  'restart from a snapshot': async ({ node, fault }) => {
    await node.callUntilDone('SAVE');
    // Some locks come and go before the crash: the snapshot is old.
    await sleep((fault.until - fault.from) * fault.severity);
    node.server.kill();
    return () => node.restart('snapshot');
  },
  freeze: ({ node }) => {
    node.server.freeze();
    return () => node.server.thaw();
  },
  flush: ({ node }) => once(node.callUntilDone('FLUSHALL')),
  'flush scripts': ({ node }) => once(node.callUntilDone('SCRIPT', 'FLUSH')),
  'kill clients': ({ node }) => once(node.callUntilDone('CLIENT', 'KILL', 'TYPE', 'normal')),
  'pause clients': async ({ node, fault }) => {
    const what = fault.severity < 0.5 ? 'ALL' : 'WRITE';
    await node.callUntilDone('CLIENT', 'PAUSE', lengthOf(fault), what);
    return () => undefined;
  },
  sleep: ({ node, fault }) => {
    // Nobody waits for the answer: it comes after the sleep, or not in time.
    const seconds = (Number(lengthOf(fault)) / 1_000).toFixed(3);
    node.call('DEBUG', 'SLEEP', seconds).catch(() => undefined);
    return () => undefined;
  },
  'out of memory': async ({ node }) => {
    await node.callUntilDone('CONFIG', 'SET', 'maxmemory', '1');
    return () => node.callUntilDone('CONFIG', 'SET', 'maxmemory', '0');
  },
  'become a replica': async ({ field, node, fault }) => {
    const master = field.nodes[(fault.node + 1) % field.nodes.length] ?? node;
    await node.callUntilDone('REPLICAOF', '127.0.0.1', `${master.server.port}`);
    return () => node.callUntilDone('REPLICAOF', 'NO', 'ONE');
  },
  partition: ({ path }) => held(path, { requests: true, replies: true }),
  'lose requests': ({ path }) => held(path, { requests: true, replies: false }),
  'lose replies': ({ path }) => held(path, { requests: false, replies: true }),
  delay: ({ path, fault }) => {
    path.delay(5 + 400 * fault.severity ** 2);
    return () => path.heal();
  },
  reset: ({ path }) => {
    path.reset();
    return () => undefined;
  },
  'drop a reply': ({ path }) => {
    path.repeatReplies(0);
    return () => undefined;
  },
  'double a reply': ({ path }) => {
    path.repeatReplies(2);
    return () => undefined;
  },
  'pause worker': ({ worker }) => {
    worker.pause();
    return () => worker.resume();
  },
  'kill worker': async ({ field, worker, fault }) => {
    await worker.kill();
    return () => field.revive(fault.worker);
  },
  'block worker': ({ worker, fault }) => {
    worker.block(fault.until - fault.from);
    return () => undefined;
  },
};

function held(path: NetworkPath, what: { requests: boolean; replies: boolean }): End {
  path.hold(what);
  return () => path.heal();
}

async function once(action: Promise<unknown>): Promise<End> {
  await action;
  return () => undefined;
}

function lengthOf({ from, until }: PlannedFault): string {
  return Math.round(until - from).toFixed(0);
}
