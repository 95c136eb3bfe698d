// What a form costs: callers who acquire and release without contention.
import { pause } from '../measure/pause.js';
import { RedisMeter } from '../measure/redis-meter.js';
import { connectNodes, forgetAll, QUORUM, type Operation, type ScriptNode } from './script-node.js';
import type { Form } from './forms.js';

/** Of one round. */
export interface Cost {
  readonly pairsPerSecond: number;
  /** CPU of one server, in µs per pair. */
  readonly serverCpu: number;
  /** This process's CPU, in µs per pair. */
  readonly clientCpu: number;
  /** Commands of one server per pair, those of scripts included. */
  readonly commands: number;
}

const CALLERS = 512;
const FRESH = 20_000;

/** Measures for `seconds` over three servers. */
export async function measureCost(
  urls: readonly string[],
  form: Form,
  seconds: number,
): Promise<Cost> {
  const nodes = await connectNodes(urls, form);
  await forgetAll(nodes);
  const meter = new RedisMeter(urls);
  const [before, ownBefore] = [await meter.read(), process.cpuUsage()];
  const startedAt = performance.now();
  const endsAt = startedAt + seconds * 1_000;
  let pairs = 0;
  const callers = Array.from({ length: CALLERS }, async (_, caller) => {
    while (performance.now() < endsAt) {
      await makePair(nodes, `caller:${caller}`);
      pairs += 1;
    }
  });
  await Promise.all(callers);
  const duration = performance.now() - startedAt;
  const { user, system } = process.cpuUsage(ownBefore);
  await pause(20);
  const after = await meter.read();
  meter.close();
  for (const node of nodes) await node.close();
  return {
    pairsPerSecond: (pairs / duration) * 1_000,
    serverCpu: ((after.cpu - before.cpu) * 1_000) / nodes.length / pairs,
    clientCpu: (user + system) / pairs,
    commands: (after.commands - before.commands) / nodes.length / pairs,
  };
}

/** Bytes that a server keeps for a resource that was locked once and released. */
export async function measureMemory(url: string, form: Form): Promise<number> {
  const nodes = await connectNodes([url], form);
  await forgetAll(nodes);
  const read = async (): Promise<number> => {
    const info = await nodes[0]?.client.info('memory');
    return Number(/^used_memory:(\d+)/m.exec(info ?? '')?.[1]);
  };
  const before = await read();
  for (let from = 0; from < FRESH; from += 500) {
    const fresh = Array.from({ length: 500 }, (_, index) => `fresh:${from + index}`);
    await Promise.all(fresh.map((resource) => makePair(nodes, resource)));
  }
  const after = await read();
  for (const node of nodes) await node.close();
  return (after - before) / FRESH;
}

let tokenBefore = 0;
let owners = 0;

async function makePair(nodes: readonly ScriptNode[], resource: string): Promise<void> {
  const now = (performance.timeOrigin + performance.now()) * 1_000;
  tokenBefore = Math.max(tokenBefore + 1, Math.floor(now));
  const own = { resource, owner: `0123456789abcdef:${(owners += 1)}`, token: tokenBefore };
  await askQuorum(nodes, { name: 'acquire', ...own }, 'granted');
  await askQuorum(nodes, { name: 'release', ...own }, 'done');
}

function askQuorum(
  nodes: readonly ScriptNode[],
  operation: Omit<Operation, 'onAnswer'>,
  expected: string,
): Promise<void> {
  const quorum = Math.min(QUORUM, nodes.length);
  return new Promise((resolve, reject) => {
    let count = 0;
    const onAnswer = (vote: string): void => {
      if (vote !== expected) reject(new Error(`${operation.name}: ${vote}`));
      count += 1;
      if (count === quorum) resolve();
    };
    for (const node of nodes) node.add({ ...operation, onAnswer });
  });
}
